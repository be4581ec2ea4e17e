#!/bin/sh
# Makes sure that there are a JDK of a version or later, and Maven: installs Debian's
# packages where there are none and that can be done. Fails where there are none after all.
#
#	java.sh VERSION
set -eu

# modern reports whether there is a Maven, and a compiler of Java that is new enough.
modern() {
	command -v mvn >/dev/null && [ "$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')" -ge "$1" ] 2>/dev/null
}

if ! modern "$1" && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	# Debian's default JDK is the one that its Maven runs on: 17 in Debian 12, a later one since.
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jdk-headless maven; } >/dev/null || true
fi
modern "$1" || {
	echo "there is no JDK $1 or later with Maven (apt-get install default-jdk-headless maven)" >&2
	exit 1
}
