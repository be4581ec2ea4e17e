# Functions of test.sh, test-waiting.sh and test-clients.sh, which read this file, for the stages of a tier.
# Both set root, the checkout, and events, the folder of the events of all tests.

failed=
polite= # a command before those that give way to what waits more than it computes
# stage NAME COMMAND… runs a part of the tier and prints how long it took.
stage() {
	name=$1
	shift
	begin=$(date +%s)
	echo "== $name"
	"$@" || failed="$failed $name"
	echo "== $name took $(($(date +%s) - begin)) s"
}

# go_test NAME FLAGS… runs `go test` and keeps its events. Sources are vetted by the linters, once.
go_test() {
	file=$events/$1.json
	shift
	$polite "$root/.cache/gotestsum" --format pkgname --hide-summary=skipped --jsonfile "$file" -- -vet=off "$@"
}

# module_test NAME FOLDER runs the tests of another module.
module_test() {
	(cd "$2" && go_test "$1" ./...)
}
