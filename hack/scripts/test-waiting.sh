#!/bin/sh
# Runs the stages of `make test` that start processes and mostly wait for them, one after the other, for
# test.sh, which computes beside them, at the lowest priority, as test-clients.sh does.
#
#	test-waiting.sh PACKAGE…            tests of real processes, then Kubernetes
#	test-waiting.sh -alone PACKAGE…     without Kubernetes, which test.sh runs when nothing is beside it
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
events=$root/.cache/tests
. hack/scripts/stages.sh
kubernetes=yes
if [ "$1" = -alone ]; then
	kubernetes=
	shift
fi
# A shell handles a signal when what it waits for has ended, which here has heard of it, too.
trap 'exit 143' TERM
# One package at a time, as some start many processes.
stage processes go_test processes -count=1 -race -tags invariants -timeout 40m -p 1 "$@"
[ -z "$kubernetes" ] || stage kubernetes hack/kubernetes/e2e.sh -test.short
[ -z "$failed" ] || {
	echo "failed:$failed" >&2
	exit 1
}
