package deadline

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	least = 2 * time.Second
	most  = 20 * time.Second
)

// An operation that takes any time up to the maximum completes after few attempts, and
// after the load has ended the time is back at the minimum within few successes.
func TestAdapts(t *testing.T) {
	for _, takes := range []time.Duration{0, least, least + 1, 5 * time.Second, most - 1} {
		a := New(least, most)
		attempts := 1
		for ; a.Allowed() < takes; attempts++ {
			a.Expired(a.Allowed())
		}
		if attempts > 5 {
			t.Errorf("%v: %d attempts", takes, attempts)
		}
		a.Took(takes)
		if a.Allowed() < takes {
			t.Errorf("%v was allowed after a success that took %v", a.Allowed(), takes)
		}
		successes := 0
		for ; a.Allowed() > least; successes++ {
			a.Took(10 * time.Millisecond)
		}
		if successes > 6 {
			t.Errorf("%v: back at the minimum after %d successes", takes, successes)
		}
	}
}

// Operations that expire together count once: nothing is learnt from the second.
func TestExpiredTogether(t *testing.T) {
	a := New(least, most)
	allowed := a.Allowed()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { a.Expired(allowed) })
	}
	all.Wait()
	if got := a.Allowed(); got != 2*least {
		t.Errorf("%v, want %v", got, 2*least)
	}
}

// Whatever happens, the time stays within its bounds, never shrinks by a failure, and
// never falls below what a success has just taken.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New(least, most)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			before := a.Allowed()
			d := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "took"))
			if rapid.Bool().Draw(t, "expired") {
				a.Expired(before)
				if a.Allowed() < before {
					t.Fatalf("%v after a failure, %v before", a.Allowed(), before)
				}
			} else {
				a.Took(d)
				if a.Allowed() < min(d, most) {
					t.Fatalf("%v after a success that took %v", a.Allowed(), d)
				}
			}
			if got := a.Allowed(); got < least || got > most {
				t.Fatalf("%v is out of bounds", got)
			}
		}
	})
}

// A Set keeps keys apart and is bounded.
func TestSet(t *testing.T) {
	s := NewSet(least, most, 3)
	s.For("slow").Expired(least)
	if got := s.For("other").Allowed(); got != least {
		t.Errorf("another key has %v", got)
	}
	if got := s.For("slow").Allowed(); got != 2*least {
		t.Errorf("the key has %v", got)
	}
	for i := range 100 {
		s.For(fmt.Sprint(i))
	}
	if n := len(s.mu.byKey); n > 3 {
		t.Errorf("%d keys", n)
	}
}
