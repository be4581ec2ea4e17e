package clocks

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestJudge: a clock counts when more than half of those that were heard agree with
// it, itself included.
func TestJudge(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, test := range []struct {
		ahead  []time.Duration
		others int
		want   error
	}{
		{nil, 0, nil},
		{nil, OthersUnknown, errAlone},
		{nil, 2, errAlone},
		{[]time.Duration{0}, 2, nil},
		{[]time.Duration{59 * time.Minute}, 1, nil},
		{[]time.Duration{-61 * time.Minute}, 1, errDiffer},
		{[]time.Duration{year, 0}, 2, nil},
		{[]time.Duration{year, -year}, 2, errDiffer},
		{[]time.Duration{year, year}, 2, errDiffer},
		{[]time.Duration{year, year, 0, 0}, 4, nil},
		{[]time.Duration{year, year, 0}, 4, errDiffer},
	} {
		if err := judge(test.ahead, test.others); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%v of %d: %v, want %v", test.ahead, test.others, err, test.want)
		}
	}
}

// TestClockThatIsSet sets a node's clock a year ahead just after it has agreed with the
// others: what they have said by then does not make the new time right. What it has heard
// it tells from the time that passed, and a node that has no map yet trusts no clock.
func TestClockThatIsSet(t *testing.T) {
	now := time.Now()
	c := New(func() time.Time { return now })
	if err := c.Trust(now, 0, false); !errors.Is(err, errAlone) {
		t.Fatalf("without a map: %v", err)
	}
	c.Expect(2)
	c.Hear("b", now.UnixMilli())
	c.Hear("c", now.UnixMilli())
	if err := c.Trust(now, 0, false); err != nil {
		t.Fatalf("all agree: %v", err)
	}
	now = now.Add(365 * 24 * time.Hour)
	if err := c.Trust(now, 0, false); !errors.Is(err, errDiffer) {
		t.Fatalf("after its clock was set: %v", err)
	}
	if text := strings.Join(c.Problems(), "\n"); !strings.Contains(text, "node b is 8760h0m0s behind") || c.Difference() < 364*24*time.Hour {
		t.Errorf("it says %q", text)
	}
	now = now.Add(-365 * 24 * time.Hour)
	if err := c.Trust(now, 0, false); err != nil {
		t.Fatalf("it was set back: %v", err)
	}
}
