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

. hack/scripts/stages.sh

# begin NAME ARGUMENTS… begins test-NAME.sh, to go on beside the stages that follow, until await NAME. It is in a process
# group of its own, which timeout makes, so that all of it is ended with this script; the lab of Kubernetes needs a while
# for that.
running=
begin() {
	begun=$1
	shift
	# shellcheck disable=SC2086 # a command and its flags
	$polite timeout --kill-after=5m 2h "hack/scripts/test-$begun.sh" "$@" >"$events/$begun.log" 2>&1 &
	eval "pid_$begun=$!"
	running="$running $!"
	trap 'for pid in $running; do kill "$pid" 2>/dev/null || true; done; wait' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
}

# be_polite gives the stages that follow the lowest priority.
be_polite() {
	# What is idle to the kernel is put aside at once when a process of the others wakes up.
	polite='nice -n 19'
	! chrt --idle 0 true 2>/dev/null || polite="chrt --idle 0 $polite"
}

# await NAME waits for what begin has begun, and prints what it printed.
await() {
	eval "pid=\$pid_$1"
	code=0
	wait "$pid" || code=$?
	still=
	for other in $running; do
		[ "$other" = "$pid" ] || still="$still $other"
	done
	running=$still
	cat "$events/$1.log"
	return "$code"
}

# memory_left MEGABYTES reports whether so much memory can be had.
memory_left() {
	[ "$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)" -ge "$(($1 * 1000))" ]
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
light=$(printf '%s\n' "$all" | grep -v '/e2e/')
# Packages with one goroutine, in which the race detector finds nothing; hack/checks holds the list to that.
sequential=$(sed "s|^|$(go list -m)/|" hack/scripts/sequential.txt)
raced=$(printf '%s\n' "$light" | grep -Ev '/(hack/checks|api/processor|operator/controller)$' | grep -vxF "$sequential")
processes=$(printf '%s\n' "$all" | grep '/e2e/' | grep -Ev '/e2e/(kubernetes|sim|years|influxdiff|migrate|promdiff|clients|examples|realinput|ui|attack)$')
peers=$(printf '%s\n' "$all" | grep -E '/e2e/(influxdiff|migrate|promdiff|clients|examples|realinput|ui)$')

if [ "$tier" = check ]; then
	# With the flags of the linters, so that packages are compiled once for both.
	CGO_ENABLED=0
	export CGO_ENABLED
	# shellcheck disable=SC2086 # a list of packages
	stage fast go_test fast -tags invariants -short -timeout 5m $light ./e2e/harness ./e2e/workload
	# What wants a real API server, Envoy or Helm is left out here; make test runs it, and holds skips to the list.
	[ -z "$failed" ] || exit 1
	exit 0
fi

# The operator's tests want a real API server and etcd, compiled the first time.
KUBEBUILDER_ASSETS=$(hack/kubernetes/envtest.sh)
export KUBEBUILDER_ASSETS
# At the lowest priority, beside all else, one may start and end later than in the 20 seconds that envtest allows by default.
KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=5m
KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=5m
export KUBEBUILDER_CONTROLPLANE_START_TIMEOUT KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT
# Real processes and Kubernetes mostly wait. So what computes runs beside them, and gives way: to them the
# machine looks as if it did nothing else. The lab takes a gigabyte, and linking with the race detector a few;
# where they are not there, and for all scenes, Kubernetes has the machine alone, at the end.
alone=
if [ "$tier" = all ] || ! memory_left 8000; then
	alone=-alone
fi
# Two stages cannot install packages at a time. Whether it can be done is told by the stage.
hack/scripts/prepare.sh kubernetes || true
# shellcheck disable=SC2086
begin waiting $alone $processes
be_polite
# Clients of other languages, and what else is a program of its own, compute by one thread most of the time.
beside=
if memory_left 8000; then
	beside=yes
	begin clients
fi
# Many of these wait, too, for timers, API servers and disks: four at a time keep two cores busy.
# shellcheck disable=SC2086
stage packages go_test packages -race -tags invariants -timeout 50m -p 4 $raced
stage managers go_test managers -race -tags invariants -run 'TestManager' ./operator/controller
# From here on without C, as what a release ships is compiled, so that packages are compiled once for both.
CGO_ENABLED=0
export CGO_ENABLED
# shellcheck disable=SC2086
stage sequential go_test sequential -tags invariants $sequential
# What the race detector cannot see, or would only slow: the sources' own rules, which are read by
# one goroutine, allocations, the simulator, which runs one goroutine at a time in each world, and
# a life of a node, which would take ten times as long.
stage sources go_test sources -count=1 ./hack/checks
# Some tests change each byte in turn, or draw often; under the race detector they took samples.
stage exhaustive go_test exhaustive -tags invariants -timeout 20m ./node/storage/index
# One goroutine drives each operator, but for those with a manager, and asks a real API server all the time, in some
# tests after it was killed at one write after the other. Some wait while others compute.
stage operator go_test operator -tags invariants -timeout 30m -parallel 4 ./operator/controller
stage alloc go_test alloc -count=1 -run 'Alloc' ./router/ingest ./node/commit
stage simulator go_test simulator -count=1 -timeout 20m ./e2e/sim ./e2e/years
FUZZ_PROGRAMS=$events/fuzz
export FUZZ_PROGRAMS
stage fuzz-build $polite hack/scripts/fuzz.sh build
[ -n "$beside" ] || begin clients
stage clients await clients
stage waiting await waiting
polite=
# From here on one at a time: attackers have the idle priority, and would be starved by what
# computes, and the fuzzer's work is measured in time.
unset CGO_ENABLED
# This one asks the kernel for slices of threads, which those of the idle priority do not have.
stage processor go_test processor -race -tags invariants ./api/processor
stage attack-core go_test attack-core -count=1 -race -tags invariants -timeout 40m ./e2e/attack
stage fuzz-short hack/scripts/fuzz.sh short
if [ "$tier" = all ]; then
	# shellcheck disable=SC2086
	stage peers go_test peers -count=1 -race -tags invariants -timeout 40m -p 1 $peers
	# The package's other tests, which compare with what OpenTSDB answered, are among the processes.
	stage opentsdb go_test opentsdb -count=1 -timeout 40m -run TestOpenTSDB ./e2e/opentsdbdiff -args -live
	stage scenarios go_test scenarios -count=1 -timeout 2h -run TestScenarios ./e2e/auditor -args -every
	stage attack go_test attack -count=1 -timeout 2h ./e2e/attack -args -long
	stage memory go_test memory -count=1 -timeout 1h ./e2e/memory -args -long
	stage fuzz hack/scripts/fuzz.sh
	stage arm64 hack/scripts/test-arm64.sh
	stage kubernetes hack/kubernetes/e2e.sh
elif [ -n "$alone" ]; then
	stage kubernetes hack/kubernetes/e2e.sh -test.short
fi
finish
