package cache

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/scan"
)

// Source returns a source that answers as s does, and takes windows from the cache. One that
// is no scan.Historian is given back as it is. All sources of a cache must have the same
// data.
func (c *Cache) Source(s scan.Source) scan.Source {
	historian, ok := s.(scan.Historian)
	if !ok {
		return s
	}
	return &source{Source: s, cache: c, historian: historian}
}

type source struct {
	scan.Source
	cache     *Cache
	historian scan.Historian
}

// Between implements scan.Dated, where what is below does: lists are not cached.
func (s *source) Between(fromMs, toMs int64) scan.Source { return scan.Between(s.Source, fromMs, toMs) }

// question is a request that may be answered from the cache.
type question struct {
	request *scan.Request
	grid    grid
	span    span // the windows of the request that can be kept
	key     string
}

// ask returns the question of a request; nil if nothing of it can be kept.
func (c *Cache) ask(r *scan.Request) *question {
	w := r.Windows
	if w == nil || w.WidthMs <= 0 || w.WidthMs > widthMsMax || w.Aggregates == 0 || w.Aggregates&scan.AggregateDigest != 0 ||
		r.FromMs > r.ToMs || r.ToMs < scan.TimeMsMin || r.FromMs > scan.TimeMsMax {
		return nil
	}
	q := &question{request: r, grid: gridOf(w)}
	q.span = q.grid.whole(r.FromMs, r.ToMs, c.options.Clock().Add(-c.options.FinalAfter).UnixMilli())
	if q.span.to-q.span.from < int64(c.options.WindowsMin) {
		return nil
	}
	q.key = keyOf(r, q.grid)
	return q
}

// Scan implements scan.Source. SeriesMax and SamplesMax of the request bound what is given,
// too, with windows of the cache; BytesMax what is held of the first windows.
func (s *source) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	q := s.cache.ask(request)
	if q == nil {
		return s.Source.Scan(ctx, request, visit)
	}
	e, turn := s.cache.use(q.key)
	if e == nil {
		s.cache.metrics.misses.Inc()
		e = &entry{key: q.key, grid: q.grid, asked: request.Windows.Aggregates, bytes: entryBytes + int64(len(q.key))}
		s.cache.put(e, nil)
		return s.Source.Scan(ctx, request, visit)
	}
	v := e.view()
	if !v.empty() && q.span.to <= v.from { // a look at what lies before does not end the looks at what lies behind
		s.cache.metrics.misses.Inc()
		return s.Source.Scan(ctx, request, visit)
	}
	changes, err := s.historian.History(ctx, request.Shards, v.marks)
	if err != nil {
		return err
	}
	marks, leastMs := summarize(changes, v.marks)
	if !v.empty() {
		if end := q.grid.before(leastMs); end < v.to {
			s.cache.metrics.changed.Inc()
			e = s.cut(e, span{v.from, end}, marks)
			v = e.view()
		}
	}
	if v.empty() || q.span.from < v.from || q.span.from >= v.to {
		s.cache.metrics.misses.Inc()
		return s.record(ctx, q, e, marks, visit)
	}
	s.cache.metrics.hits.Inc()
	return s.merge(ctx, q, e, v, marks, turn, visit)
}

// cut puts an entry in the place of one of which only some windows hold.
func (s *source) cut(e *entry, within span, marks []scan.Mark) *entry {
	if within.to <= within.from || marks == nil {
		within = span{}
	}
	short := e.part(within, marks)
	s.cache.put(short, e)
	return short
}

// summarize returns the marks of all shards, nil if there is one of which nothing can be
// said, and the least time that has changed.
func summarize(changes []scan.Change, since []scan.Mark) (marks []scan.Mark, leastMs int64) {
	leastMs = scan.ChangedNothing
	for _, c := range changes {
		if leastMs = min(leastMs, c.LeastMs); c.Run == 0 {
			return nil, scan.ChangedAll
		}
	}
	if slices.EqualFunc(changes, since, func(c scan.Change, m scan.Mark) bool { return c.Mark == m }) {
		return since, leastMs // as nothing was written meanwhile
	}
	marks = make([]scan.Mark, len(changes))
	for i, c := range changes {
		marks[i] = c.Mark
	}
	if !slices.EqualFunc(marks, since, func(a, b scan.Mark) bool { return a.Shard == b.Shard }) {
		leastMs = scan.ChangedAll
	}
	return marks, leastMs
}

// record scans all, and keeps what can be kept. Without marks that is nothing.
func (s *source) record(ctx context.Context, q *question, e *entry, marks []scan.Mark, visit scan.Visitor) error {
	if marks == nil {
		return s.Source.Scan(ctx, q.request, visit)
	}
	r := newRecorder(s.cache, q, q.span)
	var stopped atomic.Bool
	err := s.Source.Scan(ctx, q.request, func(worker int, chunk *scan.Chunk) error {
		r.take(worker, chunk)
		err := visit(worker, chunk)
		if err != nil {
			stopped.Store(true)
		}
		return err
	})
	recorded := r.end()
	if err != nil || stopped.Load() || recorded == nil {
		return err
	}
	filled := &entry{key: q.key, grid: q.grid, asked: r.asked, bytes: entryBytes + int64(len(q.key))}
	filled.mu.span, filled.mu.marks, filled.mu.widest = q.span, marks, q.span.to-q.span.from
	for _, columns := range recorded {
		for key, c := range columns {
			filled.add(key, c)
			filled.bytes += c.bytes() + int64(len(key))
		}
	}
	s.cache.put(filled, e)
	return nil
}

// merge joins what is kept with scans of what lies around it, and keeps more.
func (s *source) merge(ctx context.Context, q *question, e *entry, v view, marks []scan.Mark, turn bool, visit scan.Visitor) error {
	m := newMerger(q, e, v, visit)
	var r *recorder
	if q.span.to > v.to && marks != nil {
		r = newRecorder(s.cache, q, span{v.to, q.span.to})
	}
	err := m.run(ctx, s.Source, r)
	recorded := r.end()
	s.cache.metrics.windows.Add(float64(m.fromCache.Load()))
	if errors.Is(err, scan.ErrStopped) {
		return nil
	}
	if err != nil || marks == nil {
		return err
	}
	if recorded == nil {
		e.confirm(v.to, marks)
	} else {
		s.cache.grown(e, e.extend(span{v.to, q.span.to}, marks, recorded))
	}
	if trim, width := e.wanted(q.span.to-q.span.from, turn); trim {
		now := e.view()
		s.cache.put(e.part(span{now.to - width, now.to}, now.marks), e)
	}
	return nil
}
