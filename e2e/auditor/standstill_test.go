package auditor

import (
	"testing"
	"time"
)

func TestStandstill(t *testing.T) {
	var stands standstill[int]
	now := time.Unix(1_700_000_000, 0)
	for _, step := range []struct {
		after time.Duration
		state int
		want  bool
	}{
		{0, 7, false},
		{standstillMax, 7, false},
		{time.Millisecond, 7, true},
		{0, 8, false}, // it goes on
		{standstillMax, 8, false},
		{standstillMax, 9, false},
		{standstillMax + 1, 9, true},
	} {
		now = now.Add(step.after)
		if got := stands.tooLong(now, step.state); got != step.want {
			t.Errorf("%+v: %v", step, got)
		}
	}
}
