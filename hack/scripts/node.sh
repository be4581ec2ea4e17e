#!/bin/sh
# Makes sure that there is a Node.js of a version or later, with npm: installs Debian's
# packages where there is none and that can be done. Fails where there is none after all.
#
#	node.sh VERSION
set -eu

# modern reports whether there is an npm, and a Node.js that is new enough.
modern() {
	command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node, 10) < process.argv[1] ? 1 : 0)' "$1" 2>/dev/null
}

if ! modern "$1" && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs npm; } >/dev/null || true
fi
modern "$1" || {
	echo "there is no Node.js $1 or later with npm (apt-get install nodejs npm)" >&2
	exit 1
}
