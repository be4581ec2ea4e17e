#!/bin/sh
# Runs the fuzz targets of the module.
#
#	fuzz.sh         every target for FUZZ_TIME (30s), guided by coverage
#	fuzz.sh short   all targets together for about FUZZ_TOTAL seconds (60), each from its
#	                seeds by Go's mutator, with other random numbers in each run
#	fuzz.sh build   only builds what the short form runs, which then takes it from FUZZ_PROGRAMS,
#	                a folder, so that what is built beside other things is fuzzed alone
#
# The short form uses plain test binaries: instrumenting all packages for coverage would
# take far longer than the fuzzing. FUZZ_SEED repeats a run; its default is printed. An
# input that fails is kept in testdata/fuzz of its package, by which `go test` plays it again.
set -eu
cd "$(dirname "$0")/../.."

# packages lists the folders of this module that have fuzz targets.
packages() {
	# -e: there are folders of other modules among them.
	git grep -l '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's|^|./|' |
		xargs go list -e -f '{{if not .Error}}{{.ImportPath}}{{end}}' | sed "s|^$(go list -m)|.|"
}

# one PACKAGE PROGRAM TARGET runs one target and tells of a failure.
if [ "${1:-}" = one ]; then
	output=$WORK/output.$$
	(cd "$2" && GODEBUG=fuzzseed=$SEED "$3" -test.run '^$' -test.fuzz "^$4\$" -test.fuzztime "${EACH}ms" -test.parallel 1 \
		-test.fuzzminimizetime 2s -test.timeout 2m -test.fuzzcachedir "$WORK/corpus") >"$output" 2>&1 && exit
	# A target whose time ends while its first input runs is told of as this, by mistake.
	if grep -q 'context deadline exceeded' "$output" && ! grep -q 'Failing input' "$output"; then
		exit
	fi
	echo "== $2 $4"
	cat "$output"
	exit 1
fi

# build FOLDER writes the test programs of all packages with targets.
build() {
	packages | xargs -P 2 -I{} sh -c 'go test -c -vet=off -tags invariants -ldflags="-s -w" -o "$1/$(echo "$2" | tr / _).test" "$2"' - "$1" {}
}

if [ "${1:-}" = build ]; then
	mkdir -p "$FUZZ_PROGRAMS.new"
	build "$FUZZ_PROGRAMS.new"
	exec mv "$FUZZ_PROGRAMS.new" "$FUZZ_PROGRAMS" # so that a build that failed is not taken
fi

if [ "${1:-}" != short ]; then
	for package in $(packages); do
		for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
			echo "== $package $target"
			go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZ_TIME:-30s}" "$package"
		done
	done
	exit
fi

seed=${FUZZ_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "seed $seed: to repeat this run, FUZZ_SEED=$seed hack/scripts/fuzz.sh short"

begin=$(date +%s)
all=$(packages)
programs=${FUZZ_PROGRAMS:-}
if [ ! -d "$programs" ]; then
	programs=$work
	build "$programs"
fi
targets=0
for package in $all; do
	program=$programs/$(echo "$package" | tr / _).test
	for target in $( (cd "$package" && "$program" -test.list '^Fuzz') | grep '^Fuzz'); do
		echo "$package $program $target" >>"$work/targets"
		targets=$((targets + 1))
	done
done
# Two run at a time, each by one worker.
EACH=$((2 * ${FUZZ_TOTAL:-60} * 1000 / targets))
SEED=$seed WORK=$work
export EACH SEED WORK
echo "$targets targets, $EACH ms each; built in $(($(date +%s) - begin)) s"
status=0
xargs -P 2 -L 1 hack/scripts/fuzz.sh one <"$work/targets" || status=1
echo "fuzzed in $(($(date +%s) - begin)) s in all"
[ "$status" = 0 ] || echo "fuzz targets fail; see above" >&2
exit "$status"
