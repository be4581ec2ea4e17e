#!/bin/sh
# Tests the Rust client: compares the generated code with the .proto files, and runs formatter,
# linter, and the tests, which start bin/tickmesh themselves, with the versions that
# api/rust/versions.lock pins. Rust is installed where there is none and that can be done.
set -eu
cd "$(dirname "$0")/../.."
hack/scripts/rust.sh 1.85 || exec go run ./hack/skips -script rust
# Flags that differ between commands would have dependencies compiled again. Clippy is the compiler of
# the tests, as `cargo clippy` would read all dependencies a second time.
export RUSTFLAGS='-D warnings' RUSTDOCFLAGS='-D warnings' CARGO_TARGET_DIR="$PWD/api/rust/target"
if command -v clippy-driver >/dev/null && clippy-driver --version >/dev/null 2>&1; then
	export RUSTC_WORKSPACE_WRAPPER=clippy-driver
else
	go run ./hack/skips -script rust-clippy
fi
timeout 20m go build -trimpath -o bin/tickmesh . # one that is there may be of other sources
made=$(mktemp)
trap 'rm -f "$made"' EXIT
timeout 20m hack/scripts/rust-generate.sh "$made"
cmp "$made" api/rust/src/proto.rs || {
	echo "run hack/scripts/rust-generate.sh, and commit api/rust/src/proto.rs" >&2
	exit 1
}
cd api/rust
# What ends up in programs with the client has a licence that hack/checks allows for other languages, too.
licences=$(timeout 5m cargo tree --locked -e normal,no-proc-macro --prefix none --format '{l} {p}')
others=$(echo "$licences" | grep -Ev '(^| )(MIT|Apache-2\.0|ISC|BSD-3-Clause)( |/)|^MIT/' || true)
[ -z "$others" ] || {
	echo "not of a licence that is allowed: $others" >&2
	exit 1
}
cargo fmt --all --check
timeout 20m cargo test --quiet --locked
timeout 20m cargo doc --quiet --locked --no-deps
