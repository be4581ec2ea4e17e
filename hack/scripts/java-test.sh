#!/bin/sh
# Tests the Java client: generates its messages from the .proto files, compiles with warnings
# as errors, holds sources to their format and dependencies to the licences that are allowed,
# and runs the tests, which start bin/tickmesh themselves. A JDK 17 and Maven are installed where there are none and that can be done.
set -eu
cd "$(dirname "$0")/../.."
hack/scripts/java.sh 17
[ -x bin/tickmesh ] || go build -trimpath -o bin/tickmesh .
cd api/java
timeout --kill-after=10s 15m mvn --batch-mode --quiet --no-transfer-progress clean verify
