package cache

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// merger emits the series of one request: of each the part of a window at the front, what
// is kept, and what comes behind that, one after the other and by one visitor. The front is
// read first, and held; what comes behind is given as it comes, each series after what is
// kept of it; the rest follows at the end.
type merger struct {
	question *question
	entry    *entry
	kept     span     // what is given of the entry
	series   []*keyed // of the entry
	given    []bool   // by place in series; each written by the visitor of the series
	fronts   map[string]*front
	workers  []worker
	visit    scan.Visitor

	fromCache     atomic.Int64 // windows
	seriesGiven   atomic.Int64
	windowsGiven  atomic.Int64
	visitorFailed atomic.Bool
}

// front is what a series has before the first whole window.
type front struct {
	*column
	given bool
}

// worker is a visitor's place.
type worker struct {
	key   []byte // of the series that it is at; nil: none
	chunk scan.Chunk
	_     [64]byte // workers write side by side
}

func newMerger(q *question, e *entry, v view, visit scan.Visitor) *merger {
	return &merger{
		question: q, entry: e, kept: span{q.span.from, min(v.to, q.span.to)}, series: v.series, given: make([]bool, len(v.series)),
		fronts: map[string]*front{}, workers: make([]worker, max(1, q.request.Parallel)), visit: visit,
	}
}

// run emits all. Its error is that of a visitor, ErrStopped too, or of a scan.
func (m *merger) run(ctx context.Context, from scan.Source, r *recorder) error {
	request := *m.question.request
	if startMs := m.question.grid.startMs(m.kept.from); request.FromMs < startMs {
		request.ToMs = startMs - 1
		if err := m.readFronts(ctx, from, &request); err != nil {
			return err
		}
	}
	request.ToMs = m.question.request.ToMs
	if startMs := m.question.grid.startMs(m.kept.to); request.ToMs >= startMs {
		request.FromMs = startMs
		err := from.Scan(ctx, &request, func(worker int, chunk *scan.Chunk) error {
			r.take(worker, chunk)
			return m.behind(worker, chunk)
		})
		if err == nil && m.visitorFailed.Load() {
			err = scan.ErrStopped
		}
		if err != nil {
			return err
		}
	}
	return m.rest(ctx)
}

// readFronts reads what lies before the first whole window: a window of each series.
func (m *merger) readFronts(ctx context.Context, from scan.Source, request *scan.Request) error {
	var mu sync.Mutex
	held, most := int64(0), request.Limits.BytesMax
	return from.Scan(ctx, request, func(_ int, chunk *scan.Chunk) error {
		if len(chunk.Times) == 0 {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		f := m.fronts[string(chunk.Key)]
		if f == nil {
			f = &front{column: newColumn(request.Windows.Aggregates, chunk.Ref)}
			m.fronts[string(chunk.Key)] = f
			held += int64(len(chunk.Key))
		} else {
			held -= f.bytes()
		}
		f.appendChunk(m.question.grid, request.Windows.Aggregates, chunk, 0, len(chunk.Times))
		if held += f.bytes(); most > 0 && held > most {
			return &scan.LimitError{What: "bytes", Limit: most}
		}
		return nil
	})
}

// behind emits a chunk of what comes behind the windows that are kept.
func (m *merger) behind(number int, chunk *scan.Chunk) error {
	if len(chunk.Times) == 0 {
		return nil
	}
	w := &m.workers[number]
	if w.key == nil || !bytes.Equal(w.key, chunk.Key) {
		w.key = append(w.key[:0], chunk.Key...)
		if err := m.begin(number, w.key); err != nil {
			return err
		}
	}
	return m.give(number, chunk)
}

// begin emits what a series has before what comes behind.
func (m *merger) begin(number int, key series.Key) error {
	if err := m.open(number, key); err != nil {
		return err
	}
	place, found := m.entry.find(key)
	if !found || place >= len(m.series) { // it came later than the view
		return nil
	}
	m.given[place] = true
	w := &m.workers[number]
	return m.giveKept(number, place, m.read(w, place, 0))
}

// open counts a series, and emits its front.
func (m *merger) open(number int, key series.Key) error {
	if most := m.question.request.Limits.SeriesMax; m.seriesGiven.Add(1) > most && most > 0 {
		return m.fail(&scan.LimitError{What: "series", Limit: most})
	}
	w := &m.workers[number]
	w.chunk.Key = key
	f := m.fronts[string(key)]
	if f == nil {
		return nil
	}
	f.given = true
	w.chunk.Ref = f.ref
	f.fill(m.question.grid, m.entry.asked, 0, f.windows, &w.chunk)
	return m.give(number, &w.chunk)
}

// progress is how far the windows of a series are read.
type progress struct {
	next int
	more bool // there are some behind
}

// read reads windows that are kept of a series into the chunk of a worker.
func (m *merger) read(w *worker, place, next int) (p progress) {
	w.chunk.Ref, p.next, p.more = m.entry.read(&m.series[place].column, m.kept, next, &w.chunk)
	return p
}

// giveKept emits the windows that have been read of a series, and those that are behind them.
func (m *merger) giveKept(number, place int, p progress) error {
	w := &m.workers[number]
	for len(w.chunk.Times) > 0 {
		m.fromCache.Add(int64(len(w.chunk.Times)))
		if err := m.give(number, &w.chunk); err != nil || !p.more {
			return err
		}
		p = m.read(w, place, p.next)
	}
	return nil
}

func (m *merger) give(number int, chunk *scan.Chunk) error {
	if most := m.question.request.Limits.SamplesMax; m.windowsGiven.Add(int64(len(chunk.Times))) > most && most > 0 {
		return m.fail(&scan.LimitError{What: "samples", Limit: most})
	}
	if err := m.visit(number, chunk); err != nil {
		return m.fail(err)
	}
	return nil
}

func (m *merger) fail(err error) error {
	m.visitorFailed.Store(true)
	return err
}

// rest emits the series of which nothing came behind.
func (m *merger) rest(ctx context.Context) error {
	var next atomic.Int64
	var fronts []string
	for key, f := range m.fronts {
		if place, kept := m.entry.find([]byte(key)); (!kept || place >= len(m.series)) && !f.given {
			fronts = append(fronts, key)
		}
	}
	errs := make([]error, len(m.workers))
	work := func(number int) error {
		for !m.visitorFailed.Load() {
			i := int(next.Add(1)) - 1
			if i >= len(m.series)+len(fronts) {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return m.fail(err)
			}
			var err error
			if i < len(m.series) {
				err = m.giveRest(number, i)
			} else {
				w := &m.workers[number]
				w.key = append(w.key[:0], fronts[i-len(m.series)]...)
				err = m.open(number, w.key)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	var group sync.WaitGroup
	for number := range m.workers[1:] {
		group.Go(func() { errs[number+1] = work(number + 1) })
	}
	errs[0] = work(0)
	group.Wait()
	return firstCause(errs)
}

// giveRest emits a series of the entry, unless it was given, or has nothing.
func (m *merger) giveRest(number, place int) error {
	if m.given[place] {
		return nil
	}
	w, key := &m.workers[number], m.series[place].key
	if len(m.fronts) > 0 && m.fronts[key] != nil {
		w.key = append(w.key[:0], key...)
		if err := m.open(number, w.key); err != nil {
			return err
		}
		return m.giveKept(number, place, m.read(w, place, 0))
	}
	p := m.read(w, place, 0)
	if len(w.chunk.Times) == 0 {
		return nil
	}
	w.key = append(w.key[:0], key...)
	if err := m.open(number, w.key); err != nil {
		return err
	}
	return m.giveKept(number, place, p)
}

// firstCause prefers an error to the end that a visitor has wished for.
func firstCause(errs []error) (first error) {
	for _, err := range slices.Backward(errs) {
		if err != nil && (first == nil || errors.Is(first, scan.ErrStopped)) {
			first = err
		}
	}
	return first
}
