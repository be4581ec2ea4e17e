#!/bin/sh
# Generates the Rust client's messages from the .proto files, with the buf that hack/tools pins
# and api/rust/generate, and formats them.
#
#	rust-generate.sh [file]   default: api/rust/src/proto.rs
set -eu
cd "$(dirname "$0")/../.."
out=${1:-$PWD/api/rust/src/proto.rs}
mkdir -p .cache/proto
(cd hack/tools && go build -o ../../.cache/proto/buf github.com/bufbuild/buf/cmd/buf)
hack/scripts/rust-lock.sh
(cd proto && ../.cache/proto/buf build --path tickmesh/v1 --as-file-descriptor-set -o ../.cache/proto/v1.binpb)
(cd api/rust && cargo run --quiet --locked -p tickmesh-generate) <.cache/proto/v1.binpb >"$out"
rustfmt --edition 2024 "$out"
