// Package reconcile brings one cluster in Kubernetes to what its TickMeshCluster asks
// for: a function for each concern, which looks, lets a pure package decide (build, pki,
// etcd, rollout), and makes the changes. Cluster runs them in order.
//
// What is done follows from what is seen, every time anew. So a pass can end after any
// change, and the next one, of this operator or of another, goes on. Memory only saves
// work and makes the operator more patient.
//
// Objects are applied by the server's side with one field owner: what others change in
// our fields is put back, their own fields stay.
package reconcile
