#!/bin/sh
# Tests the Java client: generates its messages from the .proto files, compiles with warnings
# as errors, holds sources to their format and dependencies to the licences that are allowed,
# and runs the tests, which start bin/tickmesh themselves. api/java/pom.xml pins the versions of all that
# Maven fetches. A JDK 17 and Maven are installed where there are none and that can be done.
set -eu
cd "$(dirname "$0")/../.."
hack/scripts/java.sh 17 || exec go run ./hack/skips -script java
timeout 20m go build -trimpath -o bin/tickmesh . # one that is there may be of other sources
cd api/java
timeout --kill-after=10s 30m mvn --batch-mode --quiet --no-transfer-progress -Dstyle.color=never clean verify
