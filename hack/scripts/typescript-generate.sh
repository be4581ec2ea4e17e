#!/bin/sh
# Generates the TypeScript client's code from the .proto files, with the buf that hack/tools
# pins and the ts-proto that api/typescript/package-lock.json pins, which has to be installed.
#
#	typescript-generate.sh [folder]   default: api/typescript/src/generated
set -eu
cd "$(dirname "$0")/../.."
out=${1:-$PWD/api/typescript/src/generated}
mkdir -p .cache/proto
(cd hack/tools && go build -o ../../.cache/proto/buf github.com/bufbuild/buf/cmd/buf)
# Times are numbers, as Date's are; nested modules are named as Node.js wants it.
cd proto
../.cache/proto/buf generate --path tickmesh/v1 --template '{"version":"v2","plugins":[{"local":"../api/typescript/node_modules/.bin/protoc-gen-ts_proto","out":".","strategy":"all","opt":["outputServices=grpc-js","env=node","esModuleInterop=true","importSuffix=.js","useOptionals=none","outputJsonMethods=false","outputPartialMethods=true","outputTypeRegistry=false","annotateFilesWithVersion=false","removeEnumPrefix=true"]}]}' -o "$out"
