package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// scanJob is one scan, shared by its workers.
type scanJob struct {
	source   *Source
	request  *scan.Request
	visit    scan.Visitor
	refs     []series.Ref
	next     atomic.Int64 // index into refs
	inTurn   int          // refs that a worker takes at a time
	prefetch bool         // memory does not hold the segments
	rollup   rollupPlan
	samples  atomic.Int64
	rollups  atomic.Int64 // that stood for samples
	stopped  atomic.Bool
}

// refsInTurnMax are the series that a worker takes at a time, fewer if there are too
// few for all workers.
const refsInTurnMax = 8

// Scan implements scan.Source.
func (s *Source) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	if request.Steps != nil {
		return steps.Scan(ctx, s, request, visit)
	}
	s.scans.Add(1)
	if request.FromMs > request.ToMs {
		return nil
	}
	if err := boundWindows(request.Windows); err != nil {
		return err
	}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	refs, err := s.selectRefs(ctx, &request.Selector, request.FromMs, request.ToMs, request.Limits)
	if err != nil {
		return err
	}
	// Of a single series nothing is asked for ahead, so that the system need not be asked for faults.
	j := &scanJob{source: s, request: request, visit: visit, refs: refs, prefetch: len(refs) > 1 && s.underPressure(), rollup: planOf(request)}
	err = j.run(ctx)
	s.samples.Add(j.samples.Load())
	s.rollups.Add(j.rollups.Load())
	if errors.Is(err, scan.ErrStopped) {
		return nil
	}
	return err
}

// planOf returns the rollups that a request may be answered from.
func planOf(request *scan.Request) rollupPlan {
	if request.EndsOfMs > 0 && request.Windows == nil {
		return planEnds(request)
	}
	return planRollups(request.Windows)
}

// boundWindows refuses windows that end nowhere: within these bounds the arithmetic
// of windows around any sample stays within 64 bits.
func boundWindows(w *scan.Windows) error {
	switch {
	case w == nil:
		return nil
	case w.WidthMs <= 0 || w.WidthMs > WindowMsMax:
		return fmt.Errorf("a window of %d ms: it must be longer than 0, and at most %d ms", w.WidthMs, WindowMsMax)
	case w.OriginMs < scan.TimeMsMin || w.OriginMs > scan.TimeMsMax:
		return fmt.Errorf("windows from %d ms on: it must be from %d to %d ms", w.OriginMs, int64(scan.TimeMsMin), int64(scan.TimeMsMax))
	}
	return nil
}

// WindowMsMax is a window over all of time.
const WindowMsMax int64 = scan.TimeMsMax - scan.TimeMsMin + 1

// refBytes is what the scan holds, at most, for each series that it will visit: its
// local id, and its Ref before and after they are put into order.
const refBytes = 4 + 2*12

// selectRefs returns the series of a selector that may have samples in a range of time, by
// shard and id, the order of segments. Limits are for these alone.
func (s *Source) selectRefs(ctx context.Context, selector *scan.Selector, fromMs, toMs int64, limits scan.Limits) ([]series.Ref, error) {
	seriesMax := limits.SeriesMax
	if limits.BytesMax > 0 && (seriesMax == 0 || limits.BytesMax/refBytes < seriesMax) {
		seriesMax = max(1, limits.BytesMax/refBytes)
	}
	list := s.takeLocals()
	locals, err := s.o.Index.Select(ctx, s.hosted(selector), index.DaysOf(fromMs, toMs), seriesMax, *list)
	defer func() { s.keepLocals(list, locals) }()
	if err != nil {
		return nil, err
	}
	refs, err := s.o.Index.Refs(locals, make([]series.Ref, 0, len(locals)))
	if err != nil {
		return nil, err
	}
	return sortRefs(refs, len(s.o.Shards)), nil
}

// sortRefs puts refs, of shards below shards, in order of (shard, id), in another
// slice if there are many. They come in the order in which the series were made, so
// those of one shard are nearly always in order already.
func sortRefs(refs []series.Ref, shards int) []series.Ref {
	byID := func(a, b series.Ref) int { return cmp.Compare(a.ID, b.ID) }
	if len(refs) < shards {
		slices.SortFunc(refs, func(a, b series.Ref) int { return cmp.Or(cmp.Compare(a.Shard, b.Shard), byID(a, b)) })
		return refs
	}
	ends := make([]int, shards+1) // where each shard's refs begin; once they are placed, where they end
	for i := range refs {
		ends[refs[i].Shard+1]++
	}
	for shard := range shards {
		ends[shard+1] += ends[shard]
	}
	sorted := make([]series.Ref, len(refs))
	for _, ref := range refs {
		sorted[ends[ref.Shard]] = ref
		ends[ref.Shard]++
	}
	from := 0
	for _, to := range ends[:shards] {
		if of := sorted[from:to]; !slices.IsSortedFunc(of, byID) {
			slices.SortFunc(of, byID)
		}
		from = to
	}
	return sorted
}

func (j *scanJob) run(ctx context.Context) error {
	workers := max(1, min(j.request.Parallel, (len(j.refs)+1)/2))
	j.inTurn = max(1, min(refsInTurnMax, (len(j.refs)+workers-1)/workers))
	var c workerPool
	return c.run(ctx, workers, j.source.Spawn, func(ctx context.Context, worker int) error {
		err := j.work(ctx, worker)
		if err != nil {
			j.stopped.Store(true)
		}
		return err
	})
}

func (j *scanJob) work(ctx context.Context, worker int) error {
	r := j.source.newReaderOf(ctx, j.request.Limits)
	defer r.Close()
	out, share := newEmitter(j, worker, &r.windows), processor.Of(ctx)
	for {
		from := int(j.next.Add(int64(j.inTurn))) - j.inTurn
		if from >= len(j.refs) {
			return nil
		}
		refs := j.refs[from:min(from+j.inTurn, len(j.refs))]
		share.Pace()
		if j.prefetch && len(refs) > 1 {
			r.prefetch(refs, j.request.FromMs, j.request.ToMs, &j.rollup)
		}
		for _, ref := range refs {
			if err := ctx.Err(); err != nil {
				return err
			}
			if j.stopped.Load() {
				return nil
			}
			out.start(ctx, ref)
			if err := r.readWindowed(ref, j.request.FromMs, j.request.ToMs, j.rollup, out.add, out.addRollups); err != nil {
				return err
			}
			if err := out.finish(); err != nil {
				return err
			}
		}
	}
}

// emitter turns the points of one series after the other into chunks.
type emitter struct {
	job     *scanJob
	worker  int
	ctx     context.Context
	ref     series.Ref
	key     []byte
	keyRead bool
	windows *windower
	chunk   scan.Chunk
	ends    struct { // samples of addEnds
		times  []int64
		values []float64
	}
}

func newEmitter(j *scanJob, worker int, windows *windower) *emitter {
	return &emitter{job: j, worker: worker, windows: windows}
}

func (m *emitter) start(ctx context.Context, ref series.Ref) {
	m.ctx, m.ref, m.keyRead = ctx, ref, false
	if m.job.request.Windows != nil {
		m.windows.reset(m.job.request.Windows)
	}
}

// add takes the next points of the series, in time order.
func (m *emitter) add(times []int64, values []float64) error {
	if len(times) == 0 {
		return nil
	}
	if err := m.ctx.Err(); err != nil {
		return err
	}
	total := m.job.samples.Add(int64(len(times)))
	if limit := m.job.request.Limits.SamplesMax; limit > 0 && total > limit {
		return &scan.LimitError{What: "samples", Limit: limit}
	}
	if m.job.request.Windows == nil {
		m.chunk.Times, m.chunk.Values = times, values
		return m.send(&m.chunk)
	}
	// Windows are given on in bounded stretches of samples, so that the closed
	// ones never pile up.
	for len(times) > 0 {
		n := min(len(times), windowsInChunkMax)
		m.windows.add(times[:n], values[:n])
		times, values = times[n:], values[n:]
		if m.windows.full() {
			if err := m.sendWindows(); err != nil {
				return err
			}
		}
	}
	return nil
}

// addRollups takes the next rollups of the series. Each counts as one sample.
func (m *emitter) addRollups(rollups []segment.Rollup) error {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	total := m.job.samples.Add(int64(len(rollups)))
	m.job.rollups.Add(int64(len(rollups)))
	if limit := m.job.request.Limits.SamplesMax; limit > 0 && total > limit {
		return &scan.LimitError{What: "samples", Limit: limit}
	}
	if m.job.request.Windows == nil {
		return m.addEnds(rollups)
	}
	for i := range rollups {
		m.windows.addRollup(&rollups[i])
		if m.windows.full() {
			if err := m.sendWindows(); err != nil {
				return err
			}
		}
	}
	return nil
}

// addEnds sends the first and the last sample of each of some rollups.
func (m *emitter) addEnds(rollups []segment.Rollup) error {
	times, values := m.ends.times[:0], m.ends.values[:0]
	for i := range rollups {
		e := &rollups[i].Ends
		times, values = append(times, e.FirstMs), append(values, e.First)
		if e.LastMs > e.FirstMs {
			times, values = append(times, e.LastMs), append(values, e.Last)
		}
	}
	m.ends.times, m.ends.values = times, values
	m.chunk.Times, m.chunk.Values = times, values
	return m.send(&m.chunk)
}

func (m *emitter) finish() error {
	if m.job.request.Windows == nil {
		return nil
	}
	m.windows.flush()
	return m.sendWindows()
}

func (m *emitter) sendWindows() error {
	if len(m.windows.chunk.Times) == 0 {
		return nil
	}
	err := m.send(&m.windows.chunk)
	m.windows.clear()
	return err
}

func (m *emitter) send(chunk *scan.Chunk) error {
	if !m.keyRead {
		key, err := m.job.source.o.Index.Key(m.ref.Hint, m.key[:0])
		if errors.Is(err, index.ErrForgotten) { // meanwhile, as no sample of it is left
			return nil
		}
		if err != nil {
			return err
		}
		m.key, m.keyRead = key, true
	}
	chunk.Key, chunk.Ref = m.key, m.ref
	return m.job.visit(m.worker, chunk)
}
