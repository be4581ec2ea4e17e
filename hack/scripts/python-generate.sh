#!/bin/sh
# Generates the Python client's code from the .proto files, with the grpcio-tools of
# $PYTHON, which has to be the version that api/python/pyproject.toml names.
#
#	python-generate.sh [folder]   default: api/python/src
set -eu
out=${1:-}
cd "$(dirname "$0")/../.."
out=${out:-api/python/src}
"${PYTHON:-python3}" -m grpc_tools.protoc -I proto --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" proto/tickmesh/v1/*.proto
rm -f "$out"/tickmesh/v1/error_pb2_grpc.py "$out"/tickmesh/v1/scan_pb2_grpc.py # without services
