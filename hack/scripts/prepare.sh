#!/bin/sh
# Installs what the tests need and the machine lacks: a C compiler for the race
# detector; and Python's venv, without which the Python client's tests are skipped.
# The end-to-end tests install their collectors themselves.
set -eu

# install PACKAGE… installs Debian packages.
install() {
	if [ "$(id -u)" != 0 ]; then
		echo "please install as root: $*" >&2
		return 1
	fi
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

command -v gcc >/dev/null || install gcc libc6-dev
python3 -c 'import ensurepip, venv' 2>/dev/null || install python3-venv ||
	echo "python3-venv cannot be installed: the Python client's tests will be skipped" >&2
