package attack

import "testing"

// allowedSkips is all that a run may do without, with the reason.
var allowedSkips = map[string]string{
	"control group": "only root can make one, and not in every container: then GOMEMLIMIT stands for the limit that " +
		"the server would have found, and the memory is read from /proc",
}

// without notes that something cannot be done here, which fails unless the list allows it.
func without(t *testing.T, what string, err error) {
	t.Helper()
	reason, ok := allowedSkips[what]
	if !ok {
		t.Fatalf("%s cannot be had here, and that is on no list: %v", what, err)
	}
	t.Logf("without %s: %v (%s)", what, err, reason)
}
