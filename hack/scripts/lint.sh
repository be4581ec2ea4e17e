#!/bin/sh
# gofmt and the linters of .golangci.yml over the whole module, with the golangci-lint pinned
# in hack/lint; that generated code is what the .proto files say, that the page is what its
# sources give, and that nothing is called that is known to be vulnerable (vuln.sh).
#
#	lint.sh          all of it
#	lint.sh source   gofmt and golangci-lint only
set -eu
cd "$(dirname "$0")/../.."
# Without the paths of this checkout in them, compiled packages are shared by checkouts.
GOFLAGS="-trimpath ${GOFLAGS:-}"
export GOFLAGS
unformatted=$(git ls-files -z '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not formatted by gofmt:" >&2
	echo "$unformatted" >&2
	exit 1
fi
mkdir -p .cache
(cd hack/lint && go build -o ../../.cache/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
# Linters read what the compiler has written of each package: with the flags of tests, it is compiled once for both.
CGO_ENABLED=0
export CGO_ENABLED
GOLANGCI_LINT_CACHE=$PWD/.cache/golangci .cache/golangci-lint run ./...
[ "${1:-}" != source ] || exit 0
unset CGO_ENABLED
hack/scripts/generate.sh check
hack/scripts/page.sh check
hack/scripts/vuln.sh
echo "lint: clean"
