package admission

import (
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestChargesAtOnce: queries of several users come and go, and each takes and gives memory in several goroutines. Whatever is
// refused, what is charged is never below zero nor above a bound, and nothing is left when all have ended.
func TestChargesAtOnce(t *testing.T) {
	const (
		placesMax, bytesMax, bytesAllMax = 8, 60, 100
		workers                          = 3
	)
	rapid.Check(t, func(rt *rapid.T) {
		l := New(Options{RunningAllMax: placesMax, WaitingMax: placesMax, BytesAllMax: bytesAllMax, Limits: Limits{BytesMax: bytesMax}})
		type query struct {
			user   string
			amount [workers][]int64 // what a worker takes; it gives back half of what it holds in between
		}
		queries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) (q query) {
			q.user = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "user")
			for i := range q.amount {
				q.amount[i] = rapid.SliceOfN(rapid.Int64Range(0, 40), 1, 8).Draw(t, "amounts")
			}
			return q
		}), 1, placesMax-1).Draw(rt, "queries")
		var model charges
		var all sync.WaitGroup
		for _, q := range queries {
			all.Go(func() {
				_, e, err := l.Begin(t.Context(), Query{User: q.user})
				if err != nil {
					model.fail(err)
					return
				}
				var parts sync.WaitGroup
				for _, amounts := range q.amount {
					parts.Go(func() { model.work(l, e, amounts) })
				}
				parts.Wait()
				e.End(nil)
			})
		}
		all.Wait()
		if model.wrong != nil {
			rt.Fatal(model.wrong)
		}
		if used, waiting := l.places.counts(); l.Bytes() != 0 || used != 0 || waiting != 0 || len(l.places.of) != 0 {
			rt.Fatalf("left: %d bytes, %d places, %d wait, %v", l.Bytes(), used, waiting, l.places.of)
		}
	})
}

// charges checks what queries hold while they run.
type charges struct {
	mu    sync.Mutex
	wrong error
}

func (c *charges) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = err
}

// work takes and gives, and looks at all bounds after each step.
func (c *charges) work(l *Controller, e *Entry, amounts []int64) {
	held := int64(0) // by this worker
	for _, n := range amounts {
		if e.Take(n) == nil {
			held += n
		}
		if own := e.bytes.Load(); own < held || own > e.limits.BytesMax {
			c.fail(fmt.Errorf("a query is charged for %d bytes, and one of its workers holds %d of %d", own, held, e.limits.BytesMax))
		}
		if all := l.Bytes(); all < held || all > l.memory.BytesMax() {
			c.fail(fmt.Errorf("queries are charged for %d bytes, and one holds %d", all, held))
		}
		e.Give(held / 2)
		held -= held / 2
	}
	e.Give(held)
}
