#!/bin/sh
# Tests the Python client against a started server: makes a virtual environment in
# .cache, installs the client there, starts bin/tickmesh on free ports, runs pytest and
# mypy, stops the server. Real clients of Graphite are tested with it.
set -eu
cd "$(dirname "$0")/../.."
python3 -c 'import ensurepip, venv' 2>/dev/null || {
	echo "python-test: python3-venv is not installed (apt-get install python3-venv)" >&2
	exec go run ./hack/skips -script python
}
venv=$PWD/.cache/python
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -e 'api/python[test]'

go build -trimpath -o bin/tickmesh . # one that is there may be of other sources
dir=$(mktemp -d)
./bin/tickmesh standalone --data-dir "$dir/data" --wal-sync interval --log-format json \
	--http-addr 127.0.0.1:0 --put-addr '' --line-addr '' --graphite-addr 127.0.0.1:0 --grpc-addr 127.0.0.1:0 >"$dir/out" 2>"$dir/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT

# address PORT prints where the server listens, once it does.
address() {
	"$venv/bin/python" - "$dir/log" "$1" "$server" <<'PYTHON'
import json, os, sys, time
path, port, pid = sys.argv[1:]
for _ in range(600):
    for line in open(path):
        if line.endswith("\n") and line.startswith("{"):
            fields = json.loads(line)
            if fields.get("msg") == "listening" and fields.get("port") == port:
                print(fields["address"])
                sys.exit()
    os.kill(int(pid), 0)
    time.sleep(0.1)
sys.exit(f"the server does not listen on its port for {port}: see {path}")
PYTHON
}
TICKMESH_TEST_HTTP=$(address http) || { cat "$dir/log" >&2; exit 1; }
TICKMESH_TEST_GRPC=$(address grpc) || { cat "$dir/log" >&2; exit 1; }
TICKMESH_TEST_GRAPHITE=$(address graphite) || { cat "$dir/log" >&2; exit 1; }
export TICKMESH_TEST_HTTP TICKMESH_TEST_GRPC TICKMESH_TEST_GRAPHITE PYTHON="$venv/bin/python"
cd api/python
"$venv/bin/mypy"
"$venv/bin/pytest" -q "$@"
