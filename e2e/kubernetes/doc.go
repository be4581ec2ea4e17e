// Package kubernetes holds the end-to-end tests that need a real Kubernetes: the lab of
// hack/kubernetes, which its TestMain starts and ends.
//
// They run when TICKMESH_E2E names them, as hack/kubernetes/e2e.sh does for `make e2e` and
// `make test`. TICKMESH_E2E_KEEP=1 leaves the lab running after the tests, to look at it
// with `go run ./hack/kubernetes run kubectl …`; `make lab-down` ends it. On a machine that
// cannot carry the lab they are skipped, with the reason.
//
// TestCluster is the product as a person meets it: helm install, then everything that
// happens to boards, volumes, images and certificates, under clients of four protocols.
// What a person would type is not written here again: the scenes type the recipes of
// charts/tickmesh/OPERATING.md, all with the chart's defaults, and a recipe that no scene
// types fails a test. After each phase all that was acknowledged is read back; at the end
// a table tells what each phase took and what it cost the clients.
//
// TestUpgradeOfEarlierCommit upgrades a cluster that is made of a pinned commit of the history.
//
// Each phase is held to what clients may meet that try again (bounds): no pause of more than
// two seconds, and no request that fails when it is made again; a query is answered a minute after
// helm install has begun. With -short it is three times as much, as the machine may have other work.
// A pause is one of all clients of a protocol, of which there are several, as each connection leads to
// one Envoy and one router, by chance; and one of a client of each protocol that is alone and keeps its connection
// until it breaks. When a machine is lost with what they were connected to, they need silentTime more to find
// out, which no server can do for them; how they do is in dial_test.go. The SDK has its defaults.
// Two virtual processors beside work of idle priority, load average 7 to 30, 2026-11-24, -short, in seconds, when a board
// was lost: no write by any client 3.6 and no query 1.3, alone HTTP 3.7, put 9.0, line 4.7, gRPC 8.4, with silentTime
// 3 s and before operator/silence. In another run, after it and with silentTime 2 s, 1.0, 1.0, 2.7, 0.9, 2.6 and 3.6: that board had
// the operator and no Envoy, so that it tells nothing of the loss of an Envoy, nor of operator/silence. With silentTime as it is
// now nothing has been measured. No request failed twice in a row. When only the operator's way to an Envoy was cut, its pod's
// condition Ready was false after 2.7 s, and true again 1.5 s later, by its kubelet, once; when the Service's endpoints and
// proxies followed was not looked at. What is left to chance is drawn from a seed
// that is printed. A failure keeps the logs of all pods in .cache/tests/kubernetes-logs.
//
// On two virtual processors beside work of idle priority, load average 15 to 35, 2026-11-27 (UTC), bounds of the full form, one run of each: two nodes of a
// group added, and emptied and taken away, no write for 1.1 and 0.5 s at most; the volumes of three nodes moved to another class in 210 s, 0.8 s;
// the API server gone for five minutes 0.5 s, and new connections refused for 6.3 s when it was back, as Kubernetes took all machines for lost; etcd's
// majority lost 0.9 s, and no query by HTTP for 2.0 s while a new etcd was made; the machine of an Envoy lost beside two operators,
// one client of HTTP, put, lines and gRPC each without an answer for 2.9, 3.9, 0.5 and 3.3 s; one disk of three full 0.4 s.
//
// TICKMESH_E2E_SCENES=install,clients,groups has TestCluster play only those scenes; each leaves the cluster as most others
// want it, with three nodes.
//
// A machine that loses its power is silent. The full form has not been measured so. As the chart has one operator unless
// told otherwise, the loss of its own machine leaves dead Envoys in the Service for 40 s, and clients to chance.
//
// With -short, as `make test` has it, some of this is left out for its time, such as the scenes
// drain, operator loss and two under one name, which the operator's own tests play against
// a real API server, the upgrade of an earlier commit, and the tests of the lab itself. `make e2e` runs all.
//
// The test process itself is moved into the lab's network before the first test, so
// that tests reach pods and services by address without forwarding ports, and reach
// nothing else.
package kubernetes
