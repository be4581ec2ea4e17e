package read

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Last implements scan.Source. A series whose newest sample is in its head costs
// one look; one that was not written since the start is read from its end. Points come
// in no order, one after the other.
func (s *Source) Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	refs, err := s.selectRefs(ctx, selector, fromMs, scan.TimeMsMax, limits)
	if err != nil {
		return err
	}
	j := &lastJob{source: s, refs: refs, fromMs: fromMs, limits: limits, visit: visit}
	workers := max(1, min(lastWorkersMax, runtime.GOMAXPROCS(0), len(refs)/LastAtOnce))
	var c workerPool
	err = c.run(ctx, workers, s.Spawn, func(ctx context.Context, _ int) error { return j.work(ctx) })
	if errors.Is(err, scan.ErrStopped) {
		return nil
	}
	return err
}

const (
	// LastAtOnce are the series that a worker takes at a time. It looks at their heads
	// with one turn of the lock of their shard.
	LastAtOnce = 256
	// lastWorkersMax bounds the cores that one query takes.
	lastWorkersMax = 4
)

// lastJob is one Last, shared by its workers.
type lastJob struct {
	source  *Source
	refs    []series.Ref
	fromMs  int64
	limits  scan.Limits
	next    atomic.Int64 // index into refs
	stopped atomic.Bool

	visiting sync.Mutex
	visit    func(scan.Point) error // one at a time
}

// lastPoint is a point whose key is among those of its batch.
type lastPoint struct {
	series.Sample
	ref    series.Ref
	keyEnd int
}

func (j *lastJob) work(ctx context.Context) (err error) {
	r := j.source.newReaderOf(ctx, j.limits)
	defer r.Close()
	most := min(LastAtOnce, len(j.refs))
	r.heads, r.points = slices.Grow(r.heads[:0], most)[:most], slices.Grow(r.points[:0], most)[:most]
	heads, points, keys := r.heads, r.points, r.keys
	defer func() { r.keys = keys }()
	for !j.stopped.Load() {
		from := int(j.next.Add(LastAtOnce)) - LastAtOnce
		if from >= len(j.refs) {
			return nil
		}
		if err = ctx.Err(); err != nil {
			break
		}
		processor.Of(ctx).Pace()
		refs := j.refs[from:min(from+LastAtOnce, len(j.refs))]
		r.enter()
		r.lastHeads(refs, heads[:len(refs)])
		asked := r.Version
		r.Park() // last enters for those series whose head does not tell
		count := 0
		keys = keys[:0]
		for i, ref := range refs {
			heads[i].Known = heads[i].Known && r.Version == asked
			sample, ok, err := r.last(ref, &heads[i], j.fromMs)
			if err == nil && ok {
				keys, err = j.source.o.Index.Key(ref.Hint, keys)
				if errors.Is(err, index.ErrForgotten) { // meanwhile
					ok, err = false, nil
				}
			}
			if err != nil {
				j.stopped.Store(true)
				return err
			}
			if ok {
				points[count] = lastPoint{sample, ref, len(keys)}
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
		if err := j.visit(scan.Point{Key: keys[at:p.keyEnd:p.keyEnd], Ref: p.ref, Sample: p.Sample}); err != nil {
			j.stopped.Store(true) // before others visit
			return err
		}
		at = p.keyEnd
	}
	return nil
}

// lastHeads looks at the heads of series, which are in order of their shards.
func (r *Reader) lastHeads(refs []series.Ref, heads []Head) {
	for from := 0; from < len(refs); {
		shard := refs[from].Shard
		to := from
		for to < len(refs) && refs[to].Shard == shard {
			to++
		}
		replica := r.source.o.Shards[shard].Heads(refs[from:to], heads[from:to])
		if replica != r.Version.LowWater[shard].Number || replica != r.began[shard].Number {
			for i := range heads[from:to] {
				heads[from+i].Known = false
			}
		}
		from = to
	}
}

// last returns the newest sample of a series from fromMs on, and whether there is one. The
// head was looked at in the reader's version. The lease is parked, before and after.
func (r *Reader) last(ref series.Ref, head *Head, fromMs int64) (series.Sample, bool, error) {
	cut, err := r.source.o.Shards[ref.Shard].CutOf(uint32(ref.ID))
	if err != nil {
		return series.Sample{}, false, err
	}
	if head.Known && head.TimeMs >= cut && r.headIsNewest(head.TimeMs) && len(r.Version.Tombstones.Of(ref.Shard, uint32(ref.ID))) == 0 {
		return series.Sample{TimeMs: head.TimeMs, Value: head.Number.Float64()}, head.TimeMs >= fromMs, nil
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
	for _, within := range r.ranges(fromMs) {
		if err := r.Read(ref, within.FromMs, within.ToMs, keep); err != nil || found {
			return last, found, err
		}
	}
	return last, false, nil
}

// headIsNewest reports whether a head's time is sure to be the newest of its series.
// The head knows nothing of the time before the last start: neither of pages that
// were there then, nor of segments.
func (r *Reader) headIsNewest(timeMs int64) bool {
	if r.Version.GenerationOldest <= r.source.o.GenerationAtOpen || len(r.Version.Missing) > 0 {
		return false
	}
	for _, reader := range r.Version.Segments {
		if reader.Meta().MaxMs > timeMs {
			return false
		}
	}
	return true
}

// ranges returns closed ranges that together are [fromMs, end of time], newest
// first, cut where segments begin.
func (r *Reader) ranges(fromMs int64) []segment.TimeRange {
	toMs := int64(scan.TimeMsMax)
	var spans []segment.TimeRange
	for i := len(r.Version.Segments) - 1; i >= 0; i-- {
		start := r.Version.Segments[i].Meta().StartMs
		if start > fromMs && start <= toMs {
			spans = append(spans, segment.TimeRange{FromMs: start, ToMs: toMs})
			toMs = start - 1
		}
	}
	return append(spans, segment.TimeRange{FromMs: fromMs, ToMs: toMs})
}
