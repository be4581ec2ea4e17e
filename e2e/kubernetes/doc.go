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
// What was measured is in RESULTS.md. What is left to chance is drawn from a seed
// that is printed. A failure keeps the logs of all pods in .cache/tests/kubernetes-logs.
//
// TICKMESH_E2E_SCENES=install,clients,groups has TestCluster play only those scenes; each leaves the cluster as most others
// want it, with three nodes.
//
// A machine that loses its power is silent. As the chart has one operator unless
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
