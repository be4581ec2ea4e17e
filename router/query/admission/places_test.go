package admission

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
)

// TestOneUserKeepsNobodyOut: whoever runs and waits for all that they may leaves places, and room to wait, to others.
func TestOneUserKeepsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{RunningAllMax: 16, WaitingMax: 16, BytesAllMax: 1600})
		ctx, cancel := context.WithCancel(t.Context())
		var entries []*Entry
		for range 14 {
			_, e := begin(t, l, Query{User: "greedy"})
			entries = append(entries, e)
		}
		for range 14 {
			go func() {
				if _, _, err := l.Begin(ctx, Query{User: "greedy"}); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		var busy *BusyError
		if _, _, err := l.Begin(t.Context(), Query{User: "greedy"}); !errors.As(err, &busy) {
			t.Error("one more waits:", err)
		}
		for _, e := range entries {
			if err := e.Take(100); err != nil {
				t.Error(err)
			}
		}
		if err := entries[0].Take(1); !errors.As(err, &busy) {
			t.Error("there is more memory:", err)
		}
		_, modest := begin(t, l, Query{User: "modest"})
		if err := modest.Take(174); err != nil { // seven times what is free then
			t.Error(err)
		}
		cancel()
		synctest.Wait()
		for _, e := range append(entries, modest) {
			e.End(nil)
		}
	})
}

// TestQueryBeyondItsPart: a query that needs more memory than one user may ever have is told that it is too large, not that
// others are in its way: it would be asked again for ever.
func TestQueryBeyondItsPart(t *testing.T) {
	l := New(Options{BytesAllMax: 800, Limits: Limits{BytesMax: 800}})
	_, e := begin(t, l, Query{})
	defer e.End(nil)
	if err := e.Take(700); err != nil {
		t.Fatal(err)
	}
	var limit *scan.LimitError
	if err := e.Take(1); !errors.As(err, &limit) || limit.Limit != 700 {
		t.Error(err)
	}
}

// TestOwnerOfWork: without users a query is charged to the address that its work is of.
func TestOwnerOfWork(t *testing.T) {
	l := New(Options{RunningAllMax: 8})
	ctx, work := processor.New(1).Begin(t.Context(), "192.0.2.1")
	defer work.EndAll()
	if _, e, err := l.Begin(ctx, Query{}); err != nil || e.owner != "192.0.2.1" {
		t.Fatal(e.owner, err)
	}
}

// TestPlacesAreFair compares with a slow model: after each step as many run as may, and none waits whose turn it is.
func TestPlacesAreFair(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) {
			const (
				most = 8
				wait = time.Hour
			)
			p := newPlaces(most, 1000)
			running, waiting := map[string]int{}, map[string]int{}
			started := make(chan string, 1000)
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				owner := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "owner")
				if rapid.Bool().Draw(rt, "release") {
					if running[owner] == 0 {
						continue
					}
					p.release(owner)
					running[owner]--
				} else {
					waiting[owner]++
					go func() {
						ctx, cancel := context.WithTimeout(context.Background(), wait)
						defer cancel()
						if p.tryAcquire(owner) || p.acquire(ctx, owner) == nil {
							started <- owner
						}
					}()
				}
				synctest.Wait()
				for len(started) > 0 {
					owner := <-started
					waiting[owner]--
					running[owner]++
				}
				used := running["a"] + running["b"] + running["c"]
				for _, owner := range []string{"a", "b", "c"} {
					if waiting[owner] > 0 && (used < most-1 || used < most && running[owner] == 0) {
						rt.Fatalf("%s waits: %v run, %v wait", owner, running, waiting)
					}
				}
				if used > most {
					rt.Fatal(running)
				}
			}
			time.Sleep(2 * wait) // those who wait give up
			synctest.Wait()
			for owner, n := range running {
				for range n {
					p.release(owner)
				}
			}
			if used, left := p.counts(); used != 0 || left != 0 || len(p.of) != 0 {
				rt.Fatal(used, left, p.of)
			}
		})
	})
}

// TestFewestFirst: a place goes to the owner who runs the fewest, and of equals to the one who came first.
func TestFewestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(4, 10)
		for _, owner := range []string{"a", "a", "a", "b"} {
			if !p.tryAcquire(owner) {
				t.Fatal(owner)
			}
		}
		var order []string
		for _, owner := range []string{"a", "b", "c", "c"} {
			go func() {
				if err := p.acquire(t.Context(), owner); err != nil {
					t.Error(err)
				}
				order = append(order, owner)
			}()
			synctest.Wait()
		}
		for range 4 {
			p.release("a")
			synctest.Wait()
		}
		if !slices.Equal(order, []string{"c", "a", "b", "c"}) {
			t.Error(order)
		}
	})
}
