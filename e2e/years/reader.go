package years

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/read"
)

// slowReader reads all devices, and stands still after the first of them until it is let go.
type slowReader struct {
	before map[string]*Answer // what was there at the start
	fromMs int64              // all of the read is later
	toMs   int64              // what is later may change meanwhile
	got    map[string]*Answer
	stands chan struct{}
	goOn   chan struct{}
	ended  chan error
}

// snapshot returns all that devices must have.
func (o *Oracle) snapshot() map[string]*Answer {
	m := map[string]*Answer{}
	for k, l := range o.Lines {
		if l.Metric != metricDevice {
			continue
		}
		a := &Answer{TimeMs: slices.Clone(l.TimeMs)}
		for _, bits := range l.Bits {
			a.Values = append(a.Values, math.Float64frombits(bits))
		}
		m[k] = a
	}
	return m
}

// beginSlowRead returns when the reader stands.
func (o *Oracle) beginSlowRead(n Copy, nowMs int64) *slowReader {
	r := &slowReader{
		before: o.snapshot(), fromMs: nowMs - 3*dayMs, toMs: nowMs - dayMs/2, got: map[string]*Answer{},
		stands: make(chan struct{}), goOn: make(chan struct{}), ended: make(chan error, 1),
	}
	go func() {
		chunks := 0
		request := scan.Request{Selector: of(metricDevice), FromMs: r.fromMs, ToMs: scan.TimeMsMax}
		r.ended <- n.Scan(context.Background(), &request, func(_ int, c *scan.Chunk) error {
			a := r.got[string(c.Key)]
			if a == nil {
				a = &Answer{}
				r.got[string(c.Key)] = a
			}
			a.TimeMs, a.Values = append(a.TimeMs, c.Times...), append(a.Values, c.Values...)
			if chunks++; chunks == 1 {
				close(r.stands)
				<-r.goOn
			}
			return nil
		})
	}()
	select {
	case <-r.stands:
	case err := <-r.ended:
		r.ended <- err
	}
	return r
}

// end lets the reader go, and checks what it has read: all that was there at the start and at the end, and
// nothing that was at neither. A node that ends may end it.
func (r *slowReader) end(o *Oracle) error {
	close(r.goOn)
	err := <-r.ended
	if errors.Is(err, read.ErrClosed) || errors.Is(err, errKilled) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("a slow read: %w", err)
	}
	for k, before := range r.before {
		if err := r.check(k, before, o.Lines[k]); err != nil {
			return err
		}
	}
	return nil
}

func (r *slowReader) check(key string, before *Answer, after *Line) error {
	got := r.got[key]
	if got == nil {
		got = &Answer{}
	}
	for i, at := range before.TimeMs {
		if at < r.fromMs || at >= r.toMs || after == nil {
			continue
		}
		place, still := slices.BinarySearch(after.TimeMs, at)
		if !still || after.Bits[place] != math.Float64bits(before.Values[i]) || len(after.doubt[at]) > 0 || after.gone[at] {
			continue
		}
		found, there := slices.BinarySearch(got.TimeMs, at)
		if !there || math.Float64bits(got.Values[found]) != math.Float64bits(before.Values[i]) {
			return fmt.Errorf("%w: a slow read of %s lacks %s, or has it otherwise", ErrWrong, after.Key, stamp(at))
		}
	}
	for i := 1; i < len(got.TimeMs); i++ {
		if got.TimeMs[i] <= got.TimeMs[i-1] {
			return fmt.Errorf("%w: a slow read of %s has times that do not grow", ErrWrong, after.Key)
		}
	}
	return nil
}
