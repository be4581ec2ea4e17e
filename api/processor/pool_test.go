package processor

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// burn stands for work: in a bubble, time passes only in sleep.
func burn(d time.Duration) { time.Sleep(d) }

// newBusy returns a pool that always has small work.
func newBusy(slots int) *Pool {
	p := New(slots)
	p.small.Store(math.MaxInt64)
	return p
}

// TestSpare: heavy work has all processors until small work comes, and again some time after.
func TestSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		p.still = time.Hour
		_, first := p.Begin(t.Context(), "a")
		_, second := p.Begin(t.Context(), "b")
		first.Heavy()
		second.Heavy()
		if n := p.Stats().InUse; n != 2 {
			t.Fatalf("%d work while nothing else is done", n)
		}
		p.Small()
		waited := make(chan time.Duration)
		begin := time.Now()
		go func() {
			second.Pace() // gives its slot up
			waited <- time.Since(begin)
			second.End()
		}()
		synctest.Wait()
		if s := p.Stats(); s.InUse != 1 || s.Waiting != 1 {
			t.Errorf("%+v after small work", s)
		}
		burn(spareKept)
		first.Pace()
		if took := <-waited; took != spareKept {
			t.Error("the spare processor is lent again after", took)
		}
		first.EndAll()
		synctest.Wait()
		if s := p.Stats(); s.InUse != 0 || p.free() != 2 {
			t.Errorf("%+v, a heavy request is no small work", s)
		}
		_, light := p.Begin(t.Context(), "a")
		light.EndAll()
		if p.free() != 1 {
			t.Error("a small request is no small work")
		}
	})
}

func TestLightWorkNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBusy(1)
		_, heavy := p.Begin(t.Context(), "a")
		heavy.Heavy()
		defer heavy.End()
		begin := time.Now()
		_, light := p.Begin(t.Context(), "a")
		defer light.End()
		for range 3 {
			burn(allowance / 4)
			light.Pace()
		}
		if took := time.Since(begin); took != 3*(allowance/4) {
			t.Error("it has waited:", took)
		}
		light.Idle()
		burn(time.Hour) // waiting is no work
		light.Pace()
		if light.held != nothing {
			t.Error("it took a slot")
		}
	})
}

// TestBound runs requests of several goroutines and looks that never more work than there are
// slots, that each ends, and that nothing is left behind.
func TestBound(t *testing.T) {
	for _, slots := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			p := newBusy(slots)
			var working atomic.Int64
			work := func(ctx context.Context, rng *rand.Rand) {
				w := Of(ctx)
				for range 20 {
					w.Pace()
					if w.request.used.Load() < int64(allowance) {
						burn(allowance)
						continue
					}
					if n := working.Add(1); n > int64(slots) {
						t.Errorf("%d work at once in %d slots", n, slots)
					}
					burn(time.Duration(rng.IntN(int(2 * slice))))
					working.Add(-1)
					if rng.IntN(3) == 0 {
						w.Idle()
						burn(time.Duration(rng.IntN(int(slice))))
					}
				}
			}
			var all sync.WaitGroup
			for n := range 10 {
				all.Go(func() {
					ctx, w := p.Begin(t.Context(), fmt.Sprint(n%3))
					defer w.End()
					var helpers sync.WaitGroup
					for h := range 2 {
						helpers.Go(func() {
							ctx, w := Fork(ctx)
							defer w.End()
							work(ctx, rand.New(rand.NewPCG(uint64(n), uint64(h))))
						})
					}
					work(ctx, rand.New(rand.NewPCG(uint64(n), 9)))
					w.Idle()
					helpers.Wait()
				})
			}
			all.Wait()
			if p.mu.inUse != 0 || len(p.mu.owners) != 0 || p.waiters.Load() != 0 {
				t.Error(p.mu.inUse, p.mu.owners, p.waiters.Load())
			}
			if p.Stats().Skipped != 0 {
				t.Error("somebody has given up")
			}
		})
	}
}

// TestOwnersTakeTurns: one owner's many requests do not keep another's one waiting.
func TestOwnersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBusy(1)
		_, first := p.Begin(t.Context(), "many")
		first.Heavy()
		var mu sync.Mutex
		var turns []string
		var all sync.WaitGroup
		wait := func(owner string, used time.Duration) {
			all.Go(func() {
				_, w := p.Begin(t.Context(), owner)
				w.request.used.Store(int64(used))
				w.Heavy()
				mu.Lock()
				turns = append(turns, fmt.Sprintf("%s %v", owner, used))
				mu.Unlock()
				burn(time.Millisecond)
				w.End()
			})
			synctest.Wait()
		}
		wait("many", 3*time.Second)
		wait("many", 2*time.Second)
		wait("many", time.Second)
		wait("one", time.Minute)
		first.End()
		all.Wait()
		if want := []string{"many 1s", "one 1m0s", "many 2s", "many 3s"}; !slices.Equal(turns, want) {
			t.Errorf("%q, want %q", turns, want)
		}
	})
}

// TestNobodyIsLate: where clients ask again and again for about the same, the one that needs a little more than the others is not
// passed over for ever, and small requests of the same owner still come before all of them.
func TestNobodyIsLate(t *testing.T) {
	const (
		clients  = 8
		requests = 200
		mean     = 32 * time.Millisecond
		small    = 5 * time.Millisecond
	)
	synctest.Test(t, func(t *testing.T) {
		p := newBusy(1)
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		var sum, most, mostSmall time.Duration
		serve := func(work time.Duration) time.Duration {
			begin := time.Now()
			_, w := p.Begin(t.Context(), "one")
			for ; work > 0; work -= time.Millisecond {
				w.Pace()
				burn(time.Millisecond)
			}
			w.EndAll()
			return time.Since(begin)
		}
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for range requests {
					mu.Lock()
					work := mean + time.Duration(random.IntN(33)-16)*time.Millisecond
					mu.Unlock()
					took := serve(work)
					mu.Lock()
					sum, most = sum+took, max(most, took)
					mu.Unlock()
				}
			})
		}
		all.Go(func() {
			for range requests {
				time.Sleep(mean)
				mostSmall = max(mostSmall, serve(small))
			}
		})
		all.Wait()
		if fair := sum / (clients * requests); most > 3*fair {
			t.Errorf("the longest took %v, the mean is %v", most, fair)
		}
		if mostSmall > lateness*(clients+1)*small {
			t.Errorf("a small request took %v", mostSmall)
		}
	})
}

func TestSliceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBusy(1)
		_, long := p.Begin(t.Context(), "a")
		long.Heavy()
		served := make(chan time.Time)
		begin := time.Now()
		go func() {
			_, w := p.Begin(t.Context(), "b")
			defer w.End()
			w.Heavy()
			served <- time.Now()
		}()
		var at time.Time
		for range 100 {
			burn(time.Millisecond)
			long.Pace()
			select {
			case at = <-served:
			default:
			}
		}
		long.End()
		if took := at.Sub(begin); took != slice {
			t.Errorf("the other one was served after %v", took)
		}
	})
}

func TestCanceledAndLateDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBusy(1)
		p.still = time.Hour
		_, holder := p.Begin(t.Context(), "a")
		holder.Heavy()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		_, canceled := p.Begin(ctx, "b")
		canceled.Heavy()
		if took := time.Since(begin); took != time.Second || canceled.held != nothing {
			t.Error(took, canceled.held)
		}
		canceled.End()
		_, late := p.Begin(t.Context(), "b")
		late.Heavy()
		if took := time.Since(begin); took != time.Second+waitMax || late.held != nothing {
			t.Error(took, late.held)
		}
		late.End()
		if n := p.Stats().Skipped; n != 1 {
			t.Error(n)
		}
		holder.End()
		if s := p.Stats(); s.InUse != 0 || s.Waiting != 0 || s.Waited != time.Second+waitMax {
			t.Errorf("%+v", s)
		}
	})
}

// TestLateGoesOn: whoever has waited in vain does not wait again at the next Pace, and takes slots
// again after a while.
func TestLateGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBusy(1)
		p.still = time.Hour
		_, holder := p.Begin(t.Context(), "a")
		holder.Heavy()
		begin := time.Now()
		ctx, late := p.Begin(t.Context(), "b")
		late.Heavy()
		const work = 100 * time.Millisecond
		for range work / time.Millisecond {
			burn(time.Millisecond)
			late.Pace()
			late.Idle() // its slot is not what lets it go on
		}
		_, helper := Fork(ctx)
		helper.Pace()
		helper.End()
		if took := time.Since(begin); took != waitMax+work {
			t.Errorf("%v of work took %v", work, took)
		}
		if n := p.Stats().Skipped; n != 1 {
			t.Error("waits in vain:", n)
		}
		holder.End()
		burn(waitMax)
		if late.Pace(); late.held == nothing {
			t.Error("it goes on without a slot for ever")
		}
		late.End()
	})
}

// TestStandstill: holders that do not pace keep nobody waiting for longer than each lent slot takes,
// and what was lent is not given on.
func TestStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBusy(1)
		_, holder := p.Begin(t.Context(), "a")
		holder.Heavy()
		const requests = 5
		begin := time.Now()
		var longest time.Duration
		for range requests {
			_, w := p.Begin(t.Context(), "b")
			w.Heavy()
			took := time.Since(begin)
			longest = max(longest, took)
			burn(time.Millisecond)
			w.End()
			begin = time.Now()
		}
		if longest > 2*standstill {
			t.Error("a request waited", longest)
		}
		if s := p.Stats(); s.InUse != 1 || s.Skipped != 0 {
			t.Errorf("%+v", s)
		}
		holder.End()
		if s := p.Stats(); s.InUse != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestNothingIsBounded: without a pool all is a no-op.
func TestNothingIsBounded(t *testing.T) {
	var p *Pool
	ctx, w := p.Begin(t.Context(), "a")
	w.Heavy()
	w.Pace()
	w.Idle()
	_, forked := Fork(ctx)
	forked.End()
	w.End()
	if Of(ctx) != nil {
		t.Error("there is work")
	}
}

func TestCopy(t *testing.T) {
	for _, n := range []int{0, 1, copyBytesAtOnce, copyBytesAtOnce + 1, 3*copyBytesAtOnce + 7} {
		from, to := make([]byte, n), make([]byte, n+1)
		for i := range from {
			from[i] = byte(i * 251 >> 8)
		}
		if Copy(to, from); !bytes.Equal(to[:n], from) {
			t.Errorf("%d bytes are not copied", n)
		}
	}
}

func BenchmarkPace(b *testing.B) {
	p := newBusy(1)
	_, w := p.Begin(b.Context(), "a")
	w.Heavy()
	for b.Loop() {
		w.Pace()
	}
	w.End()
}

// TestWakesPoller: beside work that has lasted for a while, and from the begin of what may last without a call of Pace, threads
// are started that wait for the network; not for small work.
func TestWakesPoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		wakes := func(want int64, when string) {
			t.Helper()
			if n := p.Stats().Wakes; n != want {
				t.Errorf("%s: %d, want %d", when, n, want)
			}
		}
		for range 10 {
			_, small := p.Begin(t.Context(), "a")
			burn(pollerKept / 2)
			small.Pace()
			small.EndAll()
		}
		wakes(0, "after small work")
		_, parser := p.Begin(t.Context(), "a")
		parser.Heavy()
		wakes(1, "before work that cannot be paced")
		for range 100 {
			burn(pollerKept / 5)
			parser.Pace()
		}
		wakes(21, "during work")
		parser.EndAll()
	})
}
