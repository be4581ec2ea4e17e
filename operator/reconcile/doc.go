// Package reconcile brings one cluster in Kubernetes to what its TickMeshCluster asks for.
//
// A pass reads what there is (inventory), and passes it to the parts of the cluster:
// certificates, etcdMembers, storageNodes, volumes, templates and access. A part lets a pure
// package decide (build, pki, etcd, rollout, upgrade), makes its changes through objects, and
// keeps what it has found out for those that come after it and for the report. No part knows
// another one: pass wires them and says in which order they act.
//
// What is done follows from what is seen, every time anew. So a pass can end after any
// change, and the next one, of this operator or of another, goes on. Memory only saves
// work and makes the operator more patient.
//
// Objects are applied by the server's side with one field owner: what others change in
// our fields is put back, their own fields stay.
package reconcile
