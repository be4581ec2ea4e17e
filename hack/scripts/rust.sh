#!/bin/sh
# Makes sure that there is a Rust of a version or later, with Cargo and rustfmt: installs Debian's
# packages where there is none and that can be done. Fails where there is none after all.
#
#	rust.sh VERSION
set -eu

# modern reports whether there are all three, and they are new enough.
modern() {
	command -v rustfmt >/dev/null || return 1
	found=$(cargo --version 2>/dev/null | cut -d ' ' -f 2)
	[ "$(printf '%s\n' "$1" "${found:-0}" | sort -V | head -1)" = "$1" ]
}

# install PACKAGE… installs Debian packages.
install() {
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

if ! modern "$1" && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	# Debian 12 has a current Rust beside its own, for browsers.
	apt-get update -qq >/dev/null && { install cargo-web rustc-web rustfmt-web || install cargo rustc rustfmt; } || true
fi
modern "$1" || {
	echo "there is no Rust $1 or later with Cargo and rustfmt (Debian 12: apt-get install cargo-web rustc-web rustfmt-web)" >&2
	exit 1
}
