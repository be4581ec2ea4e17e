package storage

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// Last implements scan.Source. A series whose newest sample is in its head costs
// one look; one that was not written since the start is read from its end. Points come
// in no order, one after the other.
func (e *Engine) Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error {
	ctx, leave, err := e.readers.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	refs, err := e.selectRefs(ctx, selector, fromMs, scan.TimeMsMax, limits)
	if err != nil {
		return err
	}
	j := &lastJob{engine: e, refs: refs, fromMs: fromMs, bytesMax: limits.BytesMax, visit: visit}
	workers := max(1, min(lastWorkersMax, runtime.GOMAXPROCS(0), len(refs)/lastInTurn))
	var c crew
	err = c.run(ctx, workers, e.spawn, func(ctx context.Context, _ int) error { return j.work(ctx) })
	if errors.Is(err, scan.ErrStopped) {
		return nil
	}
	return err
}

const (
	// lastInTurn are the series that a worker takes at a time. It looks at their heads
	// with one turn of the lock of their shard.
	lastInTurn = 256
	// lastWorkersMax bounds the cores that one query takes.
	lastWorkersMax = 4
)

// lastJob is one Last, shared by its workers.
type lastJob struct {
	engine   *Engine
	refs     []series.Ref
	fromMs   int64
	bytesMax int64
	next     atomic.Int64 // index into refs
	stopped  atomic.Bool

	visiting sync.Mutex
	visit    func(scan.Point) error // one at a time
}

// lastPoint is a point whose key is among those of its batch.
type lastPoint struct {
	series.Sample
	keyEnd int
}

func (j *lastJob) work(ctx context.Context) (err error) {
	r := newSeriesReader(j.engine, j.bytesMax)
	defer r.close()
	var heads [lastInTurn]lastHead
	var points [lastInTurn]lastPoint
	var keys []byte
	for !j.stopped.Load() {
		from := int(j.next.Add(lastInTurn)) - lastInTurn
		if from >= len(j.refs) {
			return nil
		}
		if err = ctx.Err(); err != nil {
			break
		}
		processor.Of(ctx).Pace()
		refs := j.refs[from:min(from+lastInTurn, len(j.refs))]
		r.enter()
		r.lastHeads(refs, heads[:len(refs)])
		asked := r.version
		r.park() // last enters for those series whose head does not tell
		count := 0
		keys = keys[:0]
		for i, ref := range refs {
			heads[i].known = heads[i].known && r.version == asked
			sample, ok, err := r.last(ref, &heads[i], j.fromMs)
			if err == nil && ok {
				keys, err = j.engine.index.Key(ref.Hint, keys)
			}
			if err != nil {
				j.stopped.Store(true)
				return err
			}
			if ok {
				points[count] = lastPoint{sample, len(keys)}
				count++
			}
		}
		processor.Of(ctx).Idle() // whoever visits may wait for a client, and others wait for it
		if err = j.give(points[:count], keys); err != nil {
			break
		}
	}
	j.stopped.Store(true)
	return err
}

// give visits points.
func (j *lastJob) give(points []lastPoint, keys []byte) error {
	j.visiting.Lock()
	defer j.visiting.Unlock()
	at := 0
	for i := range points {
		if j.stopped.Load() {
			return nil
		}
		p := &points[i]
		if err := j.visit(scan.Point{Key: keys[at:p.keyEnd:p.keyEnd], Sample: p.Sample}); err != nil {
			j.stopped.Store(true) // before others visit
			return err
		}
		at = p.keyEnd
	}
	return nil
}

// lastHead is the newest sample of a series as its head has it. Known: there is nothing
// newer that the head does not know of, among what its shard knows.
type lastHead struct {
	timeMs int64
	number series.Number
	known  bool
}

// lastHeads looks at the heads of series, which are in order of their shards.
func (r *seriesReader) lastHeads(refs []series.Ref, heads []lastHead) {
	for from := 0; from < len(refs); {
		s := r.engine.shards[refs[from].Shard]
		s.mu.Lock()
		current := s.mu.number == r.version.floors[s.number].Number && s.mu.number == r.began[s.number].Number
		to := from
		for ; to < len(refs) && refs[to].Shard == s.number; to++ {
			h := &heads[to]
			h.timeMs, h.number, h.known = s.mu.set.Last(uint32(refs[to].ID))
			h.known = h.known && current && !s.mu.repaired.has(h.timeMs)
		}
		s.mu.Unlock()
		from = to
	}
}

// last returns the newest sample of a series from fromMs on, and whether there is one. The
// head was looked at in the reader's version. The lease is parked, before and after.
func (r *seriesReader) last(ref series.Ref, head *lastHead, fromMs int64) (series.Sample, bool, error) {
	cut, err := r.engine.shards[ref.Shard].cutOf(uint32(ref.ID))
	if err != nil {
		return series.Sample{}, false, err
	}
	if head.known && head.timeMs >= cut && r.headIsNewest(head.timeMs) && len(r.version.tombstones.of(ref.Shard, uint32(ref.ID))) == 0 {
		return series.Sample{TimeMs: head.timeMs, Value: head.number.Float64()}, head.timeMs >= fromMs, nil
	}
	// From newer times to older ones, a stretch at a time, so that a long history
	// is not decoded for its last sample.
	var last series.Sample
	var found bool
	keep := func(times []int64, values []float64) error {
		if n := len(times); n > 0 {
			last, found = series.Sample{TimeMs: times[n-1], Value: values[n-1]}, true
		}
		return nil
	}
	for _, stretch := range r.stretches(fromMs) {
		if err := r.read(ref, stretch.fromMs, stretch.toMs, keep); err != nil || found {
			return last, found, err
		}
	}
	return last, false, nil
}

// headIsNewest reports whether a head's time is sure to be the newest of its series.
// The head knows nothing of the time before the last start: neither of pages that
// were there then, nor of segments.
func (r *seriesReader) headIsNewest(timeMs int64) bool {
	if r.version.generationOldest <= r.engine.generationAtOpen || len(r.version.missing) > 0 {
		return false
	}
	for _, reader := range r.version.segments {
		if reader.Meta().MaxMs > timeMs {
			return false
		}
	}
	return true
}

// stretches returns closed ranges that together are [fromMs, end of time], newest
// first, cut where segments begin.
func (r *seriesReader) stretches(fromMs int64) []span {
	toMs := int64(scan.TimeMsMax)
	var spans []span
	for i := len(r.version.segments) - 1; i >= 0; i-- {
		start := r.version.segments[i].Meta().StartMs
		if start > fromMs && start <= toMs {
			spans = append(spans, span{start, toMs})
			toMs = start - 1
		}
	}
	return append(spans, span{fromMs, toMs})
}
