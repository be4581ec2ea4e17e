#!/bin/sh
# Makes api/rust/Cargo.lock from api/rust/versions.lock, which is the same without the lines that
# name the registry, and which is what is committed. Cargo says itself which registry it uses.
#
#	rust-lock.sh          makes Cargo.lock
#	rust-lock.sh update   makes versions.lock of the newest versions that Cargo.toml allows
set -eu
cd "$(dirname "$0")/../../api/rust"
if [ "${1:-}" = update ]; then
	rm -f Cargo.lock
	cargo generate-lockfile
	grep -v '^source = ' Cargo.lock >versions.lock
	exit
fi
[ ! -e Cargo.lock ] || ! grep -v '^source = ' Cargo.lock | cmp -s - versions.lock || exit 0
[ -e Cargo.lock ] || cargo generate-lockfile --quiet
source=$(sed -n '/^source = /{p;q;}' Cargo.lock)
sed "s|^checksum = |$source\\n&|" versions.lock >Cargo.lock.new
mv Cargo.lock.new Cargo.lock
