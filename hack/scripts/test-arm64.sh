#!/bin/sh
# Runs the tests of the engine, the replication, the parsers and the values between
# them as arm64 programs. On another machine an emulator runs them (qemu-user), many
# times slower: hence the short mode, and no race detector.
#
#	hack/scripts/test-arm64.sh [packages, default as below]
set -eu
cd "$(dirname "$0")/../.."
if [ $# = 0 ]; then
	set -- ./api/series ./api/scan/... ./api/shardmap ./node/storage/... ./node/replica/... ./api/parse ./router/split
fi
export GOARCH=arm64 CGO_ENABLED=0
if [ "$(go env GOHOSTARCH)" = arm64 ]; then
	exec go test -short -timeout 10m "$@"
fi
hack/scripts/prepare.sh arm64
# What the emulator cannot do: say at which address a mapped file that was cut short
# could not be read (it says 0, which is nobody's mapping), and start the test program
# again as a process of its own.
skip='^(TestGuardTurnsFaultsIntoErrors|TestGuardNestsAndRestores|TestGuardLetsOtherPanicsPass|TestTruncatedExtent|TestFileCutWhileMapped|TestTruncatedFile|TestKill)$'
exec go test -short -timeout 15m -exec qemu-aarch64-static -skip "$skip" "$@"
