package processor

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// newRaising returns a pool with a slot that notes how many more Ps there are.
func newRaising(more *atomic.Int64) *Pool {
	p := New(1)
	p.extra.raise, p.extra.lower = func() { more.Add(1) }, func() { more.Add(-1) }
	return p
}

// meetFor does heavy work beside small work, for a time.
func meetFor(t *testing.T, p *Pool, length time.Duration) {
	_, heavy := p.Begin(t.Context(), "a")
	defer heavy.EndAll()
	heavy.Heavy()
	for range length / time.Millisecond {
		p.Small()
		burn(time.Millisecond)
		heavy.Pace()
	}
}

// TestExtraWhileHeavyAndSmallMeet: there are more Ps from the time that heavy work was beside small work for long enough,
// until extraKept after the last time.
func TestExtraWhileHeavyAndSmallMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var more atomic.Int64
		p := newRaising(&more)
		expect := func(when string, want, raises int64) {
			t.Helper()
			synctest.Wait()
			if s := p.Stats(); more.Load() != want || s.Raised != (want > 0) || s.Raises != raises {
				t.Errorf("%s: %d times more Ps, %+v", when, more.Load(), s)
			}
		}
		meetFor(t, p, heavyMeets/2)
		expect("early", 0, 0)
		burn(10 * spentKept)
		meetFor(t, p, 2*heavyMeets)
		expect("when they meet", 1, 1)
		burn(extraKept / 2)
		meetFor(t, p, 2*heavyMeets)
		expect("when they meet again", 1, 1)
		burn(extraKept - 2*slice)
		expect("just before the end", 1, 1)
		burn(2 * slice)
		expect("long after", 0, 1)
		meetFor(t, p, 2*heavyMeets)
		expect("anew", 1, 2)
		burn(extraKept + 1)
		expect("in the end", 0, 2)
	})
}

// TestNoExtraForReads: reads that need a slot for moments, as their processor was taken from them, are no heavy work.
func TestNoExtraForReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var more atomic.Int64
		p := newRaising(&more)
		for range 1000 {
			p.Small()
			_, read := p.Begin(t.Context(), "a")
			burn(allowance)
			if read.Pace(); read.held == nothing {
				t.Fatal("it has no slot")
			}
			burn(allowance)
			read.EndAll()
		}
		synctest.Wait()
		if s := p.Stats(); more.Load() != 0 || s.Raises != 0 {
			t.Errorf("%d times more Ps, %+v", more.Load(), s)
		}
	})
}

// TestNoExtraForOneKindAlone: neither heavy nor small work alone, as in ingest, has more Ps.
func TestNoExtraForOneKindAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var more atomic.Int64
		p := newRaising(&more)
		for range 1000 {
			p.Small()
			burn(time.Millisecond)
		}
		burn(spareKept)
		_, heavy := p.Begin(t.Context(), "a")
		heavy.Heavy()
		for range 1000 {
			heavy.Pace()
			burn(time.Millisecond)
		}
		heavy.EndAll()
		synctest.Wait()
		if s := p.Stats(); more.Load() != 0 || s.Raises != 0 {
			t.Errorf("%d times more Ps, %+v", more.Load(), s)
		}
	})
}

// TestProcessHasMorePs: the pool of a process changes the number of Ps, and sets it back to what it was: two at least, or as many as
// there are processors of a process that shares them.
func TestProcessHasMorePs(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	defer runtime.SetDefaultGOMAXPROCS()
	runtime.SetDefaultGOMAXPROCS()
	processors := runtime.GOMAXPROCS(0)
	for _, shares := range []bool{false, true} {
		Prepare()
		least := spared
		if shares {
			if Share(); mayRaise(quota(os.DirFS("/"))) {
				least = 1
			}
		}
		before := runtime.GOMAXPROCS(0)
		if before != max(processors, least) {
			t.Errorf("%d Ps of %d processors, shared: %v", before, processors, shares)
		}
		raiseProcessors()
		if got := runtime.GOMAXPROCS(0); got != max(extraFactor*before, extraMin) {
			t.Errorf("%d Ps of %d", got, before)
		}
		lowerProcessors(least)
		if got := runtime.GOMAXPROCS(0); got != before {
			t.Errorf("%d Ps again, there were %d", got, before)
		}
	}
	before := runtime.GOMAXPROCS(0)
	t.Setenv("GOMAXPROCS", "3")
	if p := NewOfProcess(); p.extra.raise != nil || p.Stats().Slots != max(1, before-1) {
		t.Error("it changes what the environment sets")
	}
}
