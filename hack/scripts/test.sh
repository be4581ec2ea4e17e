#!/bin/sh
# All tests: race detector on, assertions on. Packages that start processes and
# load the machine run one at a time, after the others.
set -eu
cd "$(dirname "$0")/../.."
go build -trimpath -o bin/tickmesh .
all=$(go list ./...)
heavy=$(printf '%s\n' "$all" | grep '/e2e/' || true)
light=$(printf '%s\n' "$all" | grep -v '/e2e/')
# shellcheck disable=SC2086 # lists of packages
go test -race -tags invariants -timeout 20m $light
# shellcheck disable=SC2086
[ -z "$heavy" ] || go test -race -tags invariants -timeout 40m -p 1 $heavy
hack/scripts/python-test.sh
