#!/bin/sh
# Looks for known vulnerabilities in what the product and its images' tool call, with the
# govulncheck pinned in hack/tools. What it finds fails the run.
#
#	vuln.sh
#
# VULN_DB names another database than govulncheck's own: a mirror, or a folder as file:///….
# Where the database does not answer, hack/skips says whether the check may be left out.
set -eu
cd "$(dirname "$0")/../.."
reach_seconds=60 # one small question to the database
scan_seconds=900 # all modules, on a machine that is busy

mkdir -p .cache
(cd hack/tools && go build -o ../../.cache/govulncheck golang.org/x/vuln/cmd/govulncheck)
bin=$PWD/.cache/govulncheck
set -- # becomes the options that all calls have
[ -z "${VULN_DB:-}" ] || set -- -db "$VULN_DB"

# Asking comes before loading packages, so that an unreachable database costs no minutes.
said=$(mktemp)
trap 'rm -f "$said"' EXIT
code=0
timeout "$reach_seconds" "$bin" "$@" -mode query -format json "stdlib@$(go env GOVERSION)" >"$said" 2>&1 || code=$?
case $code in
0) ;;
2) # wrong usage: the check itself is broken
	cat "$said" >&2
	exit 1
	;;
*)
	echo "vuln: the database of vulnerabilities did not answer ($reach_seconds s at most):" >&2
	tail -n 1 "$said" >&2
	go run ./hack/skips -script vuln
	exit
	;;
esac

for module in . hack/images; do
	echo "vuln: $module"
	timeout "$scan_seconds" "$bin" "$@" -C "$module" ./... || {
		echo "vuln: $module calls what is vulnerable, or could not be looked at, see above: take the versions that mend it" >&2
		exit 1
	}
done
