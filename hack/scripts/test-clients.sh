#!/bin/sh
# Runs the stages of `make test` that are programs of their own: modules beside the product's, and clients of other languages.
# test.sh begins it beside its own stages, as most of it computes by one thread. No other stage installs packages meanwhile.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
events=$root/.cache/tests
. hack/scripts/stages.sh
# Without C, as what a release ships is compiled.
CGO_ENABLED=0
export CGO_ENABLED
# A shell handles a signal when what it waits for has ended, which here has heard of it, too.
trap 'exit 143' TERM
stage images module_test images hack/images
stage prometheus-scripts module_test prometheus-scripts e2e/promdiff/scripts
stage python hack/scripts/python-test.sh
stage typescript hack/scripts/typescript-test.sh
stage rust hack/scripts/rust-test.sh
stage java hack/scripts/java-test.sh
stage site hack/scripts/site.sh
[ -z "$failed" ] || {
	echo "failed:$failed" >&2
	exit 1
}
