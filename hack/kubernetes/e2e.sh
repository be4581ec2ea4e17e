#!/bin/sh
# Runs the end-to-end tests on the lab and prints how long each phase took. However it
# ends, the lab is ended too, unless TICKMESH_E2E_KEEP is set.
#
#	hack/kubernetes/e2e.sh [flags of a test program, as -test.short or -test.run=TestLab]
#
# `make e2e` runs all; `make test` leaves out what e2e/kubernetes/doc.go names.
set -eu
cd "$(dirname "$0")/../.."
hack/scripts/prepare.sh kubernetes
begin=$(date +%s)
program=.cache/kubernetes/e2e.test
tests=
end() {
	trap '' EXIT INT TERM HUP
	if [ -n "$tests" ] && kill -TERM "$tests" 2>/dev/null; then
		wait "$tests" || true
	fi
	[ -n "${TICKMESH_E2E_KEEP:-}" ] || go run ./hack/kubernetes down
	echo "end-to-end tests: all of it took $(($(date +%s) - begin)) s"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir -p .cache/kubernetes
go test -c -vet=off -o "$program" ./e2e/kubernetes
# The shell hears of signals while it waits for a child in the background, and only then.
# The bound is for a machine that does not get on at all: each phase has its own.
events=$PWD/.cache/tests/kubernetes
mkdir -p "$(dirname "$events")"
rm -f "$events.pipe"
mkfifo "$events.pipe"
tee "$events.log" <"$events.pipe" &
(cd e2e/kubernetes && TICKMESH_E2E=kubernetes exec "../../$program" -test.v -test.timeout=90m "$@") >"$events.pipe" 2>&1 &
tests=$!
code=0
wait "$tests" || code=$?
tests=
rm -f "$events.pipe"
go tool test2json -p github.com/tickmesh/tickmesh/e2e/kubernetes <"$events.log" >"$events.json"
exit "$code"
