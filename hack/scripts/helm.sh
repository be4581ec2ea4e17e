#!/bin/sh
# Prints the path of a helm for tests; compiles it the first time.
set -eu
cd "$(dirname "$0")/../.."
exec go run ./hack/kubernetes program helm
