#!/bin/sh
# Builds the page of router/ui from its sources in router/ui/web, with Node.js 20 or later.
# What is built is committed, so that the program is built without Node.js.
#
#	page.sh        install what it is made of, and build it in place
#	page.sh check  types, lint and unit tests, and whether what is committed is what the
#	               sources give; Node.js is installed if that can be
set -eu
cd "$(dirname "$0")/../../router/ui/web"

../../../hack/scripts/node.sh 20 || {
	[ "${1:-build}" = check ] || exit 1
	cd ../../..
	exec go run ./hack/skips -script page
}

npm ci --silent --no-progress
case "${1:-build}" in
build)
	npx --no-install vite build
	npx --no-install vite build --mode signin
	;;
check)
	npx --no-install tsc --noEmit
	npx --no-install biome check --error-on-warnings .
	npx --no-install vitest run --silent
	out=$(mktemp -d)
	trap 'rm -rf "$out"' EXIT
	npx --no-install vite build --logLevel error --outDir "$out/dist" --emptyOutDir
	npx --no-install vite build --logLevel error --outDir "$out/dist" --mode signin
	# What is compressed may differ in form: it has to give the same.
	node --input-type=module - "$out/dist" ../dist <<'NODE'
import { readdirSync, readFileSync } from "node:fs";
import { brotliDecompressSync } from "node:zlib";
const [built, committed] = process.argv.slice(2).map((dir) => {
  const files = new Map();
  for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) {
      const path = `${entry.parentPath ?? entry.path}/${entry.name}`;
      const bytes = readFileSync(path);
      files.set(path.slice(dir.length + 1), path.endsWith(".br") ? brotliDecompressSync(bytes) : bytes);
    }
  }
  return files;
});
const names = new Set([...built.keys(), ...committed.keys()]);
const wrong = [...names].filter((name) => !built.get(name)?.equals(committed.get(name) ?? Buffer.from("none")));
for (const name of wrong) {
  console.error(`router/ui/dist/${name} is not what router/ui/web gives`);
}
if (wrong.length > 0) {
  console.error("run hack/scripts/page.sh, and commit router/ui/dist");
  process.exit(1);
}
NODE
	echo "page: clean"
	;;
*)
	echo "usage: page.sh [build|check]" >&2
	exit 2
	;;
esac
