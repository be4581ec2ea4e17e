#!/bin/sh
# Runs the end-to-end tests on the lab and prints how long each phase took. However it
# ends, the lab is ended too.
#
#	hack/kubernetes/e2e.sh [flags of go test, as -run TestLab]
set -eu
cd "$(dirname "$0")/../.."
begin=$(date +%s)
end() {
	trap '' INT TERM
	[ -n "${TICKMESH_E2E_KEEP:-}" ] || go run ./hack/kubernetes down
	echo "all of it took $(($(date +%s) - begin)) s"
}
trap end EXIT
trap 'exit 130' INT TERM
TICKMESH_E2E=kubernetes go test -count=1 -timeout 60m -v "$@" ./e2e/kubernetes
