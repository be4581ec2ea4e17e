package years

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func answerOf(times []int64, values ...float64) *Answer {
	return &Answer{TimeMs: times, Values: values}
}

// TestOracleNoticesWhatIsWrong shows it answers that are right, and each kind of wrong ones.
func TestOracleNoticesWhatIsWrong(t *testing.T) {
	key := keyOf("m", "host", 1)
	for _, c := range []struct {
		what  string
		got   *Answer
		wrong string // part of what is said; empty: nothing is wrong
	}{
		{"all", answerOf([]int64{10, 20, 30, 40}, 1, 2, 3, 4), ""},
		{"a refused write was done", answerOf([]int64{10, 20, 30, 40}, 1, 22, 3, 4), ""},
		{"a refused delete was done", answerOf([]int64{10, 20, 30}, 1, 2, 3), ""},
		{"a refused new sample was written", answerOf([]int64{10, 20, 30, 40, 50}, 1, 2, 3, 4, 5), ""},
		{"what retention may have cut is missing", answerOf([]int64{20, 30, 40}, 2, 3, 4), ""},
		{"one is missing", answerOf([]int64{10, 30, 40}, 1, 3, 4), "missing"},
		{"another value", answerOf([]int64{10, 20, 30, 40}, 1, 2, 3.5, 4), "want 3"},
		{"what was deleted is back", answerOf([]int64{10, 20, 25, 30, 40}, 1, 2, 9, 3, 4), "deleted or never written"},
		{"what was cut is back", answerOf([]int64{5, 10, 20, 30, 40}, 0, 1, 2, 3, 4), "retention has cut"},
		{"nothing", nil, "missing"},
	} {
		o := NewOracle()
		*o.Horizon("m") = Horizon{GoneMs: 8, KeptMs: 15}
		o.Wrote([]Sample{{key, 5, 0}, {key, 10, 1}, {key, 20, 2}, {key, 25, 9}, {key, 30, 3}, {key, 40, 4}}, false)
		all := func(*Line) bool { return true }
		o.Deleted(all, 24, 26, nil)
		o.Deleted(all, 40, 40, errors.New("refused"))
		o.MayHaveWritten([]Sample{{key, 20, 22}, {key, 50, 5}})
		o.Forget()
		got := map[string]*Answer{}
		if c.got != nil {
			got[string(key)] = c.got
		}
		found := strings.Join(o.Compare(got, true), "; ")
		if c.wrong == "" && found != "" || !strings.Contains(found, c.wrong) {
			t.Errorf("%s: %q", c.what, found)
		}
		if c.wrong == "" && len(o.Compare(got, false)) > 0 {
			t.Errorf("%s: what was adopted is not what there is", c.what)
		}
	}
	o := NewOracle()
	if found := o.Compare(map[string]*Answer{string(key): answerOf([]int64{1}, 1)}, true); len(found) != 1 {
		t.Errorf("a series that never was: %q", found)
	}
}

// TestSentAgain: what is acknowledged when it is sent a second time may have been overwritten in between.
func TestSentAgain(t *testing.T) {
	key := keyOf("m", "host", 1)
	o := NewOracle()
	o.MayHaveWritten([]Sample{{key, 10, 1}})
	o.MayHaveWritten([]Sample{{key, 10, 2}})
	o.Wrote([]Sample{{key, 10, 1}}, true)
	for value, want := range map[float64]int{1: 0, 2: 0, 3: 1} {
		if found := o.Compare(map[string]*Answer{string(key): answerOf([]int64{10}, value)}, false); len(found) != want {
			t.Errorf("%v: %q", value, found)
		}
	}
	if found := o.Compare(nil, false); len(found) != 1 {
		t.Errorf("missing: %q", found)
	}
}

// TestDriftIsSeen: a claimed figure that grows is told, and no other.
func TestDriftIsSeen(t *testing.T) {
	flat := slices.Repeat([]float64{100}, 28)
	grown := append(slices.Repeat([]float64{100}, 21), slices.Repeat([]float64{130}, 7)...)
	for i, c := range []struct {
		f    Figure
		told bool
	}{
		{Figure{Name: "a", Follows: true, Values: flat}, false}, {Figure{Name: "a", Follows: true, Values: grown}, true},
		{Figure{Name: "a", Values: grown}, false},
	} {
		if err := (Figures{c.f}).Drift(false); (err != nil) != c.told {
			t.Errorf("case %d: %v", i, err)
		}
		if svg := c.f.SVG(); !strings.Contains(svg, "<polyline") || strings.Contains(svg, "NaN") {
			t.Errorf("case %d: %s", i, svg)
		}
	}
}
