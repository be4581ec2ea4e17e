#!/bin/sh
# Runs the tests, by tier; CONTRIBUTING.md says what each tier is for.
#
#	test.sh check  fast tests, without the race detector
#	test.sh test   what proves a change: race detector and assertions on, real processes,
#	               a real Kubernetes
#	test.sh all    every scenario, the peers, arm64, long fuzzing
#
# A stage that fails does not end the run, so that one run tells all. What was skipped must
# be on the list of hack/skips. Events of all tests are kept in .cache/tests.
set -eu
cd "$(dirname "$0")/../.."
tier=${1:-test}
case "$tier" in
check | test | all) ;;
*)
	echo "usage: test.sh [check|test|all]" >&2
	exit 2
	;;
esac

root=$PWD
events=$root/.cache/tests
rm -rf "$events"
mkdir -p "$events/binaries"
# Programs under test are built once for all packages; see e2e/harness/build.go.
E2E_BINARIES=$events/binaries
export E2E_BINARIES
# Without the paths of this checkout in them, compiled packages are shared by checkouts.
GOFLAGS="-trimpath ${GOFLAGS:-}"
export GOFLAGS
# Each program with the race detector sleeps a second before it ends, for races of what still runs
# then. A tenth is enough for those, and there are more than a hundred programs.
GORACE="atexit_sleep_ms=100 ${GORACE:-}"
export GORACE
(cd hack/tools && go build -o ../../.cache/gotestsum gotest.tools/gotestsum)

failed=
polite= # nice, while what waits more than it computes runs beside
# stage NAME COMMAND… runs a part of the tier and prints how long it took.
stage() {
	name=$1
	shift
	begin=$(date +%s)
	echo "== $name"
	"$@" || failed="$failed $name"
	echo "== $name took $(($(date +%s) - begin)) s"
}

# go_test NAME FLAGS… runs `go test` and keeps its events. Sources are vetted by the linters, once.
go_test() {
	file=$events/$1.json
	shift
	$polite "$root/.cache/gotestsum" --format pkgname --hide-summary=skipped --jsonfile "$file" -- -vet=off "$@"
}

# go_test_beside NAME TIMEOUT FLAGS… begins what go_test does, to go on beside the stages that follow, which
# have the lowest priority until await. It is in a process group of its own, which timeout makes, so
# that all of it is ended with this script.
go_test_beside() {
	beside=$1
	longest=$2
	shift 2
	timeout --kill-after=1m "$longest" "$root/.cache/gotestsum" --format pkgname --hide-summary=skipped \
		--jsonfile "$events/$beside.json" -- -vet=off "$@" >"$events/$beside.log" 2>&1 &
	running=$!
	polite='nice -n 19'
	trap 'kill "$running" 2>/dev/null || true' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
}

# await waits for what go_test_beside has begun, and prints what it printed.
await() {
	code=0
	wait "$running" || code=$?
	polite=
	trap - EXIT INT TERM HUP
	cat "$events/$beside.log"
	return "$code"
}

# module_test NAME FOLDER runs the tests of another module.
module_test() {
	(cd "$2" && go_test "$1" ./...)
}

# finish counts all tests, looks for skips that are not listed, and ends the run.
finish() {
	go run ./hack/skips "$events"/*.json || failed="$failed skips"
	if [ -n "$failed" ]; then
		echo "failed:$failed" >&2
		exit 1
	fi
	exit 0
}

all=$(go list ./...)
# What takes longest begins first, so that nothing else waits for it at the end.
first=/operator/controller$
light=$(printf '%s\n' "$all" | grep "$first" && printf '%s\n' "$all" | grep -v '/e2e/' | grep -v "$first")
raced=$(printf '%s\n' "$light" | grep -v '/hack/checks$')
processes=$(printf '%s\n' "$all" | grep '/e2e/' | grep -Ev '/e2e/(kubernetes|sim|years|influxdiff|migrate|promdiff|clients|realinput|ui|attack)$')
peers=$(printf '%s\n' "$all" | grep -E '/e2e/(influxdiff|migrate|promdiff|clients|realinput|ui)$')

if [ "$tier" = check ]; then
	# shellcheck disable=SC2086 # a list of packages
	stage fast go_test fast -short -timeout 5m $light ./e2e/harness ./e2e/workload
	# What wants a real API server, Envoy or Helm is left out here; make test runs it, and holds skips to the list.
	[ -z "$failed" ] || exit 1
	exit 0
fi

# The operator's tests want a real API server and etcd, compiled the first time.
KUBEBUILDER_ASSETS=$(hack/kubernetes/envtest.sh)
export KUBEBUILDER_ASSETS
# These start processes, one test at a time, and mostly wait for them. So what computes runs beside
# them, at the lowest priority: to processes the machine looks as if it did nothing else.
# shellcheck disable=SC2086
go_test_beside processes 90m -count=1 -race -tags invariants -timeout 40m -p 1 $processes
# shellcheck disable=SC2086
stage packages go_test packages -race -tags invariants -timeout 50m $raced
# What the race detector cannot see, or would only slow: the sources' own rules, which are read by
# one goroutine, allocations, the simulator, which runs one goroutine at a time in each world, and
# a life of a node, which would take ten times as long.
stage sources go_test sources -count=1 ./hack/checks
# Some tests change each byte in turn, or draw often; under the race detector they took samples.
stage exhaustive go_test exhaustive -tags invariants -timeout 20m ./node/storage/index
stage alloc go_test alloc -count=1 -run 'Alloc' ./router/ingest ./node/commit
stage simulator go_test simulator -count=1 -timeout 20m ./e2e/sim ./e2e/years
stage images module_test images hack/images
stage prometheus-scripts module_test prometheus-scripts e2e/promdiff/scripts
stage processes await
# From here on one at a time: attackers have the idle priority, and would be starved by what
# computes; the fuzzer's work is measured in time; Kubernetes' clients may not wait for long.
stage attack-core go_test attack-core -count=1 -race -tags invariants -timeout 40m ./e2e/attack
stage python hack/scripts/python-test.sh
stage typescript hack/scripts/typescript-test.sh
stage rust hack/scripts/rust-test.sh
stage fuzz-short hack/scripts/fuzz.sh short
if [ "$tier" = all ]; then
	# shellcheck disable=SC2086
	stage peers go_test peers -count=1 -race -tags invariants -timeout 40m -p 1 $peers
	stage scenarios go_test scenarios -count=1 -timeout 2h -run TestScenarios ./e2e/auditor -args -every
	stage attack go_test attack -count=1 -timeout 2h ./e2e/attack -args -long
	stage memory go_test memory -count=1 -timeout 1h ./e2e/memory -args -long
	stage fuzz hack/scripts/fuzz.sh
	stage arm64 hack/scripts/test-arm64.sh
	stage kubernetes hack/kubernetes/e2e.sh
else
	stage kubernetes hack/kubernetes/e2e.sh -test.short
fi
finish
