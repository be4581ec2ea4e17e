// Package kubernetes holds the end-to-end tests that need a real Kubernetes: the lab of
// hack/kubernetes, which its TestMain starts and ends.
//
// They run when TICKMESH_E2E names them, as `make e2e` does:
//
//	TICKMESH_E2E=kubernetes go test -count=1 -timeout 60m -v ./e2e/kubernetes
//
// TICKMESH_E2E_KEEP=1 leaves the lab running after the tests, to look at it with
// `go run ./hack/kubernetes run kubectl …`; `make lab-down` ends it. On a machine that
// cannot run the lab they are skipped, with the reason.
//
// TestCluster is the product as a person meets it: helm install, then everything that
// happens to boards, volumes, images and certificates, under clients of four protocols.
// After each phase it reads back all that was acknowledged; at its end it prints a table
// of what each phase took and what it cost the clients.
//
// The test process itself is moved into the lab's network before the first test, so
// that tests reach pods and services by address without forwarding ports, and reach
// nothing else.
package kubernetes
