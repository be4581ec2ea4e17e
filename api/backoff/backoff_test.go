package backoff

import (
	"math"
	"testing"
	"time"
)

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		e        Exponential
		failures int
		want     time.Duration // the longest
	}{
		{Exponential{10, 100}, 0, 10}, {Exponential{10, 100}, 1, 10}, {Exponential{10, 100}, 2, 20}, {Exponential{10, 100}, 4, 80},
		{Exponential{10, 100}, 5, 100}, {Exponential{10, 100}, 63, 100}, {Exponential{10, 100}, math.MaxInt, 100},
		{Exponential{time.Second, math.MaxInt64}, 34, time.Second << 33}, {Exponential{time.Second, math.MaxInt64}, 64, math.MaxInt64},
		{Exponential{100, 10}, 1, 10}, {Exponential{}, 3, 0},
	} {
		least, most := time.Duration(math.MaxInt64), time.Duration(0)
		for range 1000 {
			d := c.e.Delay(c.failures)
			least, most = min(least, d), max(most, d)
		}
		if least < c.want/2 || most > c.want || c.want > 0 && c.want < 1000 && (least != c.want-c.want/2 || most != c.want) {
			t.Errorf("%+v after %d failures: from %d to %d, want %d at most", c.e, c.failures, least, most, c.want)
		}
	}
}
