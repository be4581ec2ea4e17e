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
// one Envoy and one router, by chance. When a machine is lost with all that they were connected to, they
// need silentTime more to find out, which no server can do for them; how they do is in dial_test.go.
// Two virtual processors beside work of idle priority, load average 20 to 48, 2026-11-24, two runs of -short
// (seeds 1 and 3): when a board was lost no write for 2.3 and 3.9 s and no query for 1.4 and 4.0 s, else no pause above
// 3.7 s; 9 and 10 requests failed, none twice in a row; the first query was answered after 53 and 67 s. What is
// left to chance is drawn from a seed that is printed. A
// failure keeps the logs of all pods in .cache/tests/kubernetes-logs.
//
// The full form has not been measured with machines that are silent when they lose their power.
//
// With -short, as `make test` has it, some of this is left out for its time, such as the scenes
// drain, operator loss and two under one name, which the operator's own tests play against
// a real API server, the upgrade of an earlier commit, and the tests of the lab itself. `make e2e` runs all.
//
// The test process itself is moved into the lab's network before the first test, so
// that tests reach pods and services by address without forwarding ports, and reach
// nothing else.
package kubernetes
