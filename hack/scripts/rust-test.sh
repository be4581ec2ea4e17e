#!/bin/sh
# Tests the Rust client: compares the generated code with the .proto files, and runs formatter,
# linter, and the tests, which start bin/tickmesh themselves, with the versions that
# api/rust/versions.lock pins. Rust is installed where there is none and that can be done.
set -eu
cd "$(dirname "$0")/../.."
hack/scripts/rust.sh 1.85 || exec go run ./hack/skips -script rust
[ -x bin/tickmesh ] || go build -trimpath -o bin/tickmesh .
made=$(mktemp)
trap 'rm -f "$made"' EXIT
timeout 20m hack/scripts/rust-generate.sh "$made"
cmp "$made" api/rust/src/proto.rs || {
	echo "run hack/scripts/rust-generate.sh, and commit api/rust/src/proto.rs" >&2
	exit 1
}
if cargo clippy --version >/dev/null 2>&1; then
	(cd api/rust && timeout 20m cargo clippy --quiet --locked --workspace --all-targets -- -D warnings)
else
	go run ./hack/skips -script rust-clippy
fi
cd api/rust
# What ends up in programs with the client has a licence that hack/checks allows for other languages, too.
others=$(cargo tree --locked -e normal,no-proc-macro --prefix none --format '{l} {p}' | grep -Ev '(^| )(MIT|Apache-2\.0|ISC|BSD-3-Clause)( |/)|^MIT/' || true)
[ -z "$others" ] || {
	echo "not of a licence that is allowed: $others" >&2
	exit 1
}
cargo fmt --all --check
timeout 20m cargo test --quiet --locked
