#!/bin/sh
# Installs what the tests need and the machine lacks: a C compiler for the race
# detector, Python's venv for the tests of the Python client and the site, Node.js for those of the
# TypeScript client, Rust for those of the Rust client, and a JDK with Maven for those of
# the Java client.
# The end-to-end tests install their collectors themselves.
#
#	hack/scripts/prepare.sh              for `make test`
#	hack/scripts/prepare.sh kubernetes   for the lab of hack/kubernetes
#	hack/scripts/prepare.sh arm64        for hack/scripts/test-arm64.sh
set -eu

# install PACKAGE… installs Debian packages.
install() {
	if [ "$(id -u)" != 0 ]; then
		echo "please install as root: $*" >&2
		return 1
	fi
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

case "${1:-test}" in
kubernetes)
	complete() {
		for program in containerd runc iptables conntrack ip nsenter busybox /usr/lib/cni/bridge; do
			command -v "$program" >/dev/null || return 1
		done
		python3 -m pip --version >/dev/null 2>&1
	}
	complete && exit
	[ "$(id -u)" = 0 ] || {
		echo "not root: nothing is installed, and the tests on the lab cannot run" >&2
		exit
	}
	install containerd runc containernetworking-plugins iptables nftables conntrack ethtool ipset kmod \
		iproute2 util-linux busybox-static python3-pip
	exit
	;;
arm64)
	command -v qemu-aarch64-static >/dev/null || install qemu-user-static
	exit
	;;
esac

command -v gcc >/dev/null || install gcc libc6-dev
python3 -c 'import ensurepip, venv' 2>/dev/null || install python3-venv ||
	echo "python3-venv cannot be installed: the Python client's tests cannot run, and the site cannot be built" >&2
hack=$(dirname "$0")
"$hack/node.sh" 18 || echo "the TypeScript client's tests cannot run" >&2
"$hack/rust.sh" 1.85 || echo "the Rust client's tests cannot run" >&2
"$hack/java.sh" 17 || echo "the Java client's tests cannot run" >&2
