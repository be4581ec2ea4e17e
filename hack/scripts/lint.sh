#!/bin/sh
# gofmt, vet and staticcheck over the whole module, with the tools pinned in
# hack/tools; that generated code is what the .proto files say, that the page is what its
# sources give, and that nothing is called that is known to be vulnerable (vuln.sh).
#
#	lint.sh          all of it
#	lint.sh source   gofmt, vet and staticcheck only
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
go vet ./...
go vet -tags invariants ./...
mkdir -p .cache
(cd hack/tools && go build -o ../../.cache/staticcheck honnef.co/go/tools/cmd/staticcheck)
.cache/staticcheck -tags invariants ./...
[ "${1:-}" != source ] || exit 0
hack/scripts/generate.sh check
hack/scripts/page.sh check
hack/scripts/vuln.sh
echo "lint: clean"
