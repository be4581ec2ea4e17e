package main

import (
	"slices"
	"strings"
	"testing"
)

const events = `{"Action":"start","Package":"github.com/tickmesh/tickmesh/node"}
{"Action":"skip","Package":"github.com/tickmesh/tickmesh/node","Test":"TestA/one"}
{"Action":"output","Package":"github.com/tickmesh/tickmesh/node","Test":"TestA/one","Output":"--- SKIP"}
not json
{"Action":"skip","Package":"github.com/tickmesh/tickmesh/node","Test":"TestA/one"}
{"Action":"pass","Package":"github.com/tickmesh/tickmesh/node","Test":"TestB"}
{"Action":"skip","Package":"github.com/tickmesh/tickmesh/proto"}
`

func TestTally(t *testing.T) {
	var got tally
	err := got.read(strings.NewReader(events))
	if want := []string{"node TestA/one"}; err != nil || !slices.Equal(got.skipped, want) || got.passed != 1 || got.failed != 0 {
		t.Fatalf("got %+v (%v), want %q skipped and one passed", got, err, want)
	}
}

func TestOnlyListedSkipsPass(t *testing.T) {
	allowed, err := parse([]byte("- {check: node TestA/*, reason: none}\n- {check: e2e/x, reason: all of it}\n- {check: script page, reason: old}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		skipped string
		passes  bool
	}{
		{"node TestA/one", true}, {"node TestAB", false}, {"nodes TestA/one", false}, {"node", false},
		{"e2e/x TestAny", true}, {"e2e/xy TestAny", false}, {"script page", true}, {"script other", false},
	} {
		var out strings.Builder
		if err := report(&out, allowed, []string{c.skipped}); (err == nil) != c.passes {
			t.Errorf("%s: %v", c.skipped, err)
		} else if err != nil && !strings.Contains(err.Error(), c.skipped) {
			t.Errorf("%s: the error does not name it: %v", c.skipped, err)
		}
	}
}

func TestEntriesNeedReasons(t *testing.T) {
	for _, text := range []string{"- check: a", "- reason: a", "- {check: a, reason: b, why: c}", "a"} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if _, err := parse(allowedFile); err != nil {
		t.Error(err)
	}
}
