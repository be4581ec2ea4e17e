#!/bin/sh
# Installs what the tests need and the machine lacks: a C compiler for the race
# detector. The end-to-end tests install their collectors themselves.
set -eu
missing=
command -v gcc >/dev/null || missing="$missing gcc libc6-dev"
if [ -n "$missing" ]; then
	if [ "$(id -u)" != 0 ]; then
		echo "please install as root:$missing" >&2
		exit 1
	fi
	apt-get update -qq
	# shellcheck disable=SC2086 # a list of packages
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
fi
