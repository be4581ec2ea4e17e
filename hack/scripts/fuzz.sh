#!/bin/sh
# Runs every fuzz target of the module for FUZZ_TIME.
set -eu
cd "$(dirname "$0")/../.."
for package in $(go list ./...); do
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "== $package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZ_TIME:-30s}" "$package"
	done
done
