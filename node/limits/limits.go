// Package limits decides which new series a node makes: as many as the node's own bounds
// let in, and the bounds of their databases. It reads batches and refuses definitions; it
// depends on neither logs nor groups, and writes nothing.
package limits

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
)

// Bounds of a node. 0 means no bound.
type Bounds struct {
	SeriesMax          int64 // in all
	SeriesPerSecondMax int64 // new ones; bursts of one second are allowed
}

// Index is what the Limiter asks about the series that exist.
type Index interface {
	// LookupSeries returns the reference of a series, and whether there is one.
	LookupSeries(key series.Key) (ref series.Ref, known bool, err error)
	// SeriesCount returns the number of series that were ever created.
	SeriesCount() int64
	// SeriesKnown returns how many of them are not forgotten.
	SeriesKnown() int64
	// SeriesMax returns how many series memory has room for.
	SeriesMax() int64
}

// Led is what the Limiter asks about the shards that this node leads: it lets in their part
// of what a database is allowed.
type Led interface {
	// SeriesLed returns the number of series of a database in them.
	SeriesLed(database string) (int64, error)
	// ShareLed returns the part that they are of all shards, from 0 to 1.
	ShareLed() float64
}

// Options of a Limiter. All but Rules are needed.
type Options struct {
	Bounds Bounds
	// Rules returns the rules of databases as they are now. Nil, or a nil result: there are
	// none.
	Rules func() *tenancy.Rules
	Index Index
	Led   Led
	Clock func() time.Time
}

// Limiter admits new series. All methods may be called from many goroutines.
type Limiter struct {
	rules     func() *tenancy.Rules
	index     Index
	node      *nodeLimiter
	databases *databaseLimiter
	refused   atomic.Int64
}

// Refused returns the number of new series that were refused since the start.
func (l *Limiter) Refused() int64 { return l.refused.Load() }

// New returns a Limiter.
func New(o Options) *Limiter {
	if o.Rules == nil {
		o.Rules = func() *tenancy.Rules { return nil }
	}
	return &Limiter{rules: o.Rules, index: o.Index, node: newNodeLimiter(o.Bounds, o.Clock), databases: newDatabaseLimiter(&o)}
}

// Admission is what of one write the limits have let through. It is released when the write
// has ended.
type Admission struct {
	Refused  []series.Refusal
	admitted int64 // new series
}

// Release forgets the series that were admitted: they exist by now, or never will. A second
// call does nothing.
func (l *Limiter) Release(a *Admission) {
	l.node.release(a.admitted)
	a.admitted = 0
}

// Admit checks the definitions of a frame's part, and returns the batch and the id with
// which the part is proposed: without the points of the definitions that are refused, which
// it adds to a. Errors: series.ErrSeriesRate refuses the part alone, any other the frame.
func (l *Limiter) Admit(frame *series.Frame, part int, a *Admission) (batch []byte, id series.BatchID, err error) {
	batch = frame.Parts[part].Batch
	if l.unlimited() && !l.short() {
		return batch, frame.ID, nil
	}
	var r series.BatchReader
	r.Reset(batch)
	keys, unknown, err := l.definitions(&r)
	if err != nil || len(unknown) == 0 {
		return batch, frame.ID, err
	}
	before := len(a.Refused)
	defer func() { l.refused.Add(int64(len(a.Refused) - before)) }()
	if frame.ID.IsKeyed() {
		return l.admitKeyed(batch, &r, keys, unknown, part, frame.ID, a)
	}
	batch, err = l.admitEach(batch, &r, keys, unknown, part, a)
	return batch, frame.ID, err
}

// unlimited reports whether anybody may make any series.
func (l *Limiter) unlimited() bool { return l.node.unlimited() && l.rules() == nil }

// short reports whether there are nearly as many series as memory has room for: while there is
// plenty, no batch is looked at for its sake.
func (l *Limiter) short() bool {
	most := l.index.SeriesMax()
	return l.index.SeriesCount() >= most-most/shortPart
}

// shortPart of the series that memory has room for are looked at one by one.
const shortPart = 4

// admitEach admits the unknown series of a batch one by one.
func (l *Limiter) admitEach(batch []byte, r *series.BatchReader, keys []series.Key, unknown []int, part int, a *Admission) ([]byte, error) {
	out := map[int]bool{}
	for _, definition := range unknown {
		err := l.databases.admit(keys[definition], 1)
		if err == nil {
			err = l.node.admit(l.index)
		}
		if err != nil {
			a.Refused = append(a.Refused, series.Refusal{Part: part, Definition: definition, Err: err})
			out[definition] = true
		} else {
			a.admitted++
		}
	}
	if len(out) == 0 {
		return batch, nil
	}
	return withoutDefinitions(r, series.HoursOf(batch), keys, out)
}

// definitions returns the keys that a batch defines, and which of them are no series yet.
func (l *Limiter) definitions(r *series.BatchReader) (keys []series.Key, unknown []int, err error) {
	for {
		key, ok := r.NextDefinition()
		if !ok {
			return keys, unknown, r.Err()
		}
		_, known, err := l.index.LookupSeries(key)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", series.ErrReadOnly, err)
		}
		if !known {
			unknown = append(unknown, len(keys))
		}
		keys = append(keys, key)
	}
}

// withoutDefinitions encodes a batch again without the points of some of its definitions.
// The reader stands before the first point.
func withoutDefinitions(r *series.BatchReader, hours bool, keys []series.Key, out map[int]bool) ([]byte, error) {
	var e series.BatchEncoder
	if hours {
		e.SetHours()
	}
	slots := make([]series.ID, len(keys))
	for i, key := range keys {
		if !out[i] {
			slots[i] = e.Define(key)
		}
	}
	for r.NextPoint() {
		id := series.ID(r.Ref)
		if id >= series.SlotBase {
			slot := int(id - series.SlotBase)
			if slot >= len(keys) {
				return nil, fmt.Errorf("%w: a point names definition %d of %d", series.ErrBatch, slot, len(keys))
			}
			if out[slot] {
				continue
			}
			id = slots[slot]
		}
		e.Append(id, r.TimeMs, r.Mantissa, r.Scale)
	}
	return e.AppendTo(nil), r.Err()
}

// isRate reports whether an error will pass within a second.
func isRate(err error) bool { return errors.Is(err, series.ErrSeriesRate) }
