#!/bin/sh
# Tests the TypeScript client: installs what its package-lock.json pins, compares the
# generated code with the .proto files, and runs types, linter, and the tests, which start
# bin/tickmesh themselves. Node.js 18 is installed where there is none and that can be done.
set -eu
cd "$(dirname "$0")/../.."
hack/scripts/node.sh 18 || exec go run ./hack/skips -script typescript
go build -trimpath -o bin/tickmesh . # one that is there may be of other sources
(cd api/typescript && npm ci --silent --no-progress)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
hack/scripts/typescript-generate.sh "$made"
diff -r "$made" api/typescript/src/generated || {
	echo "run hack/scripts/typescript-generate.sh, and commit api/typescript/src/generated" >&2
	exit 1
}
cd api/typescript
rm -rf build
npx --no-install tsc
npx --no-install tsc --noEmit --strict --module nodenext --target es2022 --types node build/src/index.d.ts # as users see it
npx --no-install biome check --error-on-warnings .
node --test build/test/*.test.js
