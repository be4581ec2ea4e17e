#!/bin/sh
# All tests: race detector on, assertions on. Packages that start processes and
# load the machine run one at a time, after the others; the end-to-end tests on
# Kubernetes are the last.
set -eu
cd "$(dirname "$0")/../.."
go build -trimpath -o bin/tickmesh .
# The operator's tests want a real API server and etcd, compiled the first time.
KUBEBUILDER_ASSETS=$(hack/kubernetes/envtest.sh)
export KUBEBUILDER_ASSETS
all=$(go list ./...)
heavy=$(printf '%s\n' "$all" | grep '/e2e/' || true)
light=$(printf '%s\n' "$all" | grep -v '/e2e/')
# shellcheck disable=SC2086 # lists of packages
go test -race -tags invariants -timeout 20m $light
# shellcheck disable=SC2086
[ -z "$heavy" ] || go test -race -tags invariants -timeout 40m -p 1 $heavy
go -C hack/images test ./...
go -C e2e/promdiff/scripts test ./...
hack/scripts/python-test.sh
hack/scripts/test-arm64.sh
exec hack/kubernetes/e2e.sh -test.short
