package continuous

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	ql "github.com/influxdata/influxql"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/election"
)

// Runner selects and writes. It is safe for concurrent use.
type Runner interface {
	// SelectInto runs a SELECT … INTO … in a database, and returns how many rows it has written.
	SelectInto(ctx context.Context, database string, s *ql.SelectStatement) (written int64, err error)
}

// Options of a Service. Set is required; every other field has a default.
type Options struct {
	Set *Set
	// Campaign waits until this process is to run queries. Nil: it always is.
	Campaign   func(context.Context) (shardmap.Leadership, error)
	Parallel   int                   // queries at once; default 2
	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are not registered
}

// Service runs the queries of a Set while it is elected.
type Service struct {
	options Options
	metrics *metrics
}

// New returns a Service, which does nothing before Run.
func New(o Options) *Service {
	if o.Parallel <= 0 {
		o.Parallel = 2
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{o, newMetrics(o.Registerer)}
}

const (
	tick = time.Second // how often queries are looked for that are due
	// lateMax is how late a run may be: what was due before is not made up for, but for the last one.
	lateMax = time.Hour
	// Waits after runs that failed one after the other.
	retryMin = 10 * time.Second
	retryMax = 5 * time.Minute
)

// Run runs queries until ctx ends, whenever this process is elected. Nobody campaigns while there are none.
func (s *Service) Run(ctx context.Context, runner Runner) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if len(s.options.Set.all()) > 0 {
			s.hold(ctx, runner)
		}
	}
}

// hold runs queries while this process is elected and there are any.
func (s *Service) hold(ctx context.Context, runner Runner) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	election.Hold(ctx, s.options.Campaign, func(term context.Context) {
		s.options.Logger.Info("this process runs continuous queries")
		s.metrics.elected.Set(1)
		defer s.metrics.elected.Set(0)
		newTerm(s, runner).run(term)
		if term.Err() == nil { // there are none any more
			end()
		}
	})
}

// term is a time for which this process runs queries.
type term struct {
	*Service
	runner  Runner
	running sync.WaitGroup

	mu struct {
		sync.Mutex
		states map[string]*state // by id
		busy   int               // runs
	}
}

// state is how far a query is.
type state struct {
	query    *Query
	due      time.Time // of the first run that has not been done
	failures int       // in a row
	retry    time.Time // not before, after a failure
	running  bool
}

func newTerm(s *Service, runner Runner) *term {
	t := &term{Service: s, runner: runner}
	t.mu.states = map[string]*state{}
	return t
}

// run runs queries until ctx ends, or there are none.
func (t *term) run(ctx context.Context) {
	defer t.running.Wait()
	defer t.metrics.late.Set(0)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		queries := t.options.Set.all()
		if t.metrics.queries.Set(float64(len(queries))); len(queries) == 0 {
			return
		}
		t.begin(ctx, queries, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// begin begins the runs that are due, those first that are the latest, as far as there are places.
func (t *term) begin(ctx context.Context, queries []*Query, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	states := make(map[string]*state, len(queries))
	var due []*state
	for _, q := range queries {
		id := idOf(q.Database, q.Name)
		st := t.mu.states[id]
		if st == nil || st.query != q { // another one of the name begins anew; a run of the one before ends by itself
			st = &state{query: q, due: q.firstDue(now)}
		}
		states[id] = st
		if !st.running && !now.Before(st.due) && !now.Before(st.retry) {
			due = append(due, st)
		}
	}
	t.mu.states = states
	slices.SortStableFunc(due, func(a, b *state) int { return a.due.Compare(b.due) })
	late := time.Duration(0)
	for _, st := range due {
		if t.mu.busy == t.options.Parallel {
			late = max(late, now.Sub(st.due))
			continue
		}
		st.running = true
		t.mu.busy++
		t.running.Go(func() { t.runOne(ctx, st, now) })
	}
	t.metrics.late.Set(late.Seconds())
}

// firstDue returns from when on a process that knows of no run makes up for what was due: the last hour, and at least
// the last run, but nothing before the query was made.
func (q *Query) firstDue(now time.Time) time.Time {
	first := q.schedule.ran(now)
	if hour := now.Add(-lateMax); hour.Before(first) {
		first = hour
	}
	if first.Before(q.created) {
		first = q.created
	}
	return first
}

// runOne runs a query over the windows that are due, and notes how far it is.
func (t *term) runOne(ctx context.Context, st *state, now time.Time) {
	due := st.due
	if oldest := now.Add(-lateMax); due.Before(oldest) && st.failures > 0 && due.Before(st.query.schedule.ran(now)) {
		t.metrics.givenUp.Inc()
		t.options.Logger.Warn("a continuous query has failed for so long that windows are left out", "database", access.Display(st.query.Database), "query", st.query.Name, "since", due)
		due = st.query.firstDue(now)
	}
	written, took, err := t.runWindows(ctx, st.query, due, now)
	t.mu.Lock()
	defer t.mu.Unlock()
	st.running = false
	t.mu.busy--
	attributes := []any{"database", access.Display(st.query.Database), "query", st.query.Name, "rows", written, "took_ms", took.Milliseconds()}
	switch {
	case err == nil:
		st.due, st.failures, st.retry = st.query.schedule.next(st.query.schedule.ran(now)), 0, time.Time{}
		t.metrics.runs.WithLabelValues("ok").Inc()
		t.options.Logger.Debug("a continuous query has run", attributes...)
	case ctx.Err() == nil:
		st.failures++
		st.due, st.retry = due, time.Now().Add(backoff.Exponential{Min: retryMin, Max: retryMax}.Delay(st.failures))
		t.metrics.runs.WithLabelValues("failed").Inc()
		t.options.Logger.Warn("a continuous query has failed; it is tried again", append(attributes, "error", err)...)
	}
	t.metrics.rows.Add(float64(written))
}

// runWindows runs a query over the windows of a run at now that was due before.
func (t *term) runWindows(ctx context.Context, q *Query, due, now time.Time) (written int64, took time.Duration, err error) {
	from, to := q.schedule.windows(due, now)
	if !from.Before(to) {
		return 0, 0, nil
	}
	s, err := q.between(from, to)
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	written, err = t.runner.SelectInto(ctx, q.Database, s)
	return written, time.Since(begun), err
}
