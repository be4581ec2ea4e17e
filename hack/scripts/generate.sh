#!/bin/sh
# Generates Go code from the .proto files, with the plugins pinned in hack/tools;
# protoc-gen-go is the one of the protobuf module that the product is built with.
#
#	generate.sh           generate in place
#	generate.sh check     only compare, lint, and look for breaking changes
#	generate.sh baseline  take the present API as what later changes are held to
set -eu
cd "$(dirname "$0")/../.."
mkdir -p .cache/proto
bin=$PWD/.cache/proto
go build -o "$bin/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
(cd hack/tools && go build -o "$bin/buf" github.com/bufbuild/buf/cmd/buf &&
	go build -o "$bin/protoc-gen-go-grpc" google.golang.org/grpc/cmd/protoc-gen-go-grpc)
PATH=$bin:$PATH
export PATH
cd proto
buf lint
buf format --diff --exit-code
case "${1:-generate}" in
generate)
	buf generate
	;;
baseline)
	buf build --as-file-descriptor-set --exclude-source-info -o baseline.binpb
	;;
check)
	buf breaking --against baseline.binpb
	out=$(mktemp -d)
	trap 'rm -rf "$out"' EXIT
	buf generate -o "$out"
	changed=0
	for file in $(cd "$out" && find . -name '*.go' && cd "$OLDPWD" && find . -name '*.pb.go'); do
		cmp "$out/$file" "$file" || changed=1
	done
	if [ $changed = 1 ]; then
		echo "generated code is not what the .proto files say: run hack/scripts/generate.sh" >&2
		exit 1
	fi
	;;
*)
	echo "usage: generate.sh [generate|check|baseline]" >&2
	exit 2
	;;
esac
