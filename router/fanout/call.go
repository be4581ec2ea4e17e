package fanout

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
)

// call is one Write under way. All but deliver runs in the goroutine of its caller.
type call struct {
	cluster  *Cluster
	frame    *series.Frame
	id       series.BatchID
	deadline time.Time
	parts    []part
	left     int   // parts that are not written
	fatal    error // no further attempts are made
	outcome  series.Outcome
	missing  int          // full voters of a part that do not have it, at most, though the frame asks for all
	flying   atomic.Int32 // attempts that are waited for, or fewer: see deliver

	wake  chan struct{} // has one element when there is something to do
	mu    sync.Mutex
	done  []*attempt // guarded by mu: delivered
	ended bool       // guarded by mu: nobody waits for attempts any more, the frame's memory may change
}

// deliver hands the call an attempt whose outcome is known. The call
// is woken when it has nothing else to wait for, or something to try again.
func (w *call) deliver(a *attempt) {
	w.mu.Lock()
	w.done = append(w.done, a)
	w.mu.Unlock()
	if w.flying.Add(-1) > 0 && a.err == nil && len(a.outcomes) == 0 {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default: // it was said already
	}
}

// encode appends an attempt to a request, unless nobody waits for it any more. Only
// while the call has not ended is the frame's memory its own.
func (w *call) encode(a *attempt, dst []byte, scratch *wire.Frame) (_ []byte, wanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return dst, false
	}
	*scratch = wire.Frame{Sequence: a.sequence, ID: w.id, TimeoutMs: a.timeoutMs, Level: w.frame.Level, Parts: scratch.Parts[:0]}
	for _, i := range a.parts {
		p, part := &w.parts[i], &w.frame.Parts[i]
		scratch.Parts = append(scratch.Parts, wire.Part{Shard: part.Shard, Era: p.era, Points: p.points, Batch: part.Batch})
	}
	return scratch.AppendTo(dst), true
}

func (w *call) delivered() []*attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := w.done
	w.done = nil
	return done
}

func (w *call) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
}

// result returns the outcome when all parts are written.
func (w *call) result() (series.Outcome, error) {
	if w.missing > 0 {
		return series.Outcome{}, &series.CopiesError{Copies: w.outcome.Copies, Missing: w.missing}
	}
	return w.outcome, nil
}

// wrote marks a part as done.
func (w *call) wrote(i int, a *attempt, o *wire.PartOutcome) {
	p, shard := &w.parts[i], w.frame.Parts[i].Shard
	p.done, p.current = true, nil
	w.left--
	w.cluster.leads(shard, a.node)
	if w.outcome.Copies == 0 || o.Copies < w.outcome.Copies {
		w.outcome.Copies = o.Copies
	}
	if w.frame.Level == series.LevelAll && o.Level != series.LevelAll {
		w.missing = max(w.missing, o.Missing, 1) // a node that does not know the level says nothing of it
	}
	for _, r := range o.Refused {
		if r.Part = i; r.Definition < p.definitions {
			w.outcome.Refused = append(w.outcome.Refused, r)
		}
	}
	if len(o.Defined) > 0 {
		w.learn(i, o.Defined)
	}
}

// learn passes the ids of a part's definitions to the resolver.
func (w *call) learn(i int, defined []series.Defined) {
	part := &w.frame.Parts[i]
	keys := make([]series.Key, 0, w.parts[i].definitions)
	var r series.BatchReader
	for r.Reset(part.Batch); ; {
		key, ok := r.NextDefinition()
		if !ok {
			break
		}
		keys = append(keys, key)
	}
	for _, d := range defined {
		if d.Part = i; d.Definition >= len(keys) {
			continue
		}
		w.cluster.resolver.Learn(keys[d.Definition], part.Shard, d.ID, d.Era)
		w.outcome.Defined = append(w.outcome.Defined, d)
	}
}
