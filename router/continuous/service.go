package continuous

import (
	"context"
	"log/slog"
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
	// Kept returns how long samples of a database are kept, 0 for ever, as far as that is known.
	Kept(database string) time.Duration
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
	ended   chan struct{} // holds one value while a run has ended that begin has not looked after

	mu struct {
		sync.Mutex
		states map[string]*state // by id
		order  []*state          // by database and name
		busy   int               // runs
	}
}

// state is how far a query is. Its times but retry are of the clock on the wall, which may be set.
type state struct {
	query    *Query
	due      time.Time // of the first run that has not been done
	to       time.Time // the end of the last window that was written; zero: of none, or windows are left out
	failures int       // in a row
	retry    time.Time // not before, after a failure
	// step is how much a run makes up for at most, after one that failed: what can be read at once may be less than what
	// was missed. 0: all.
	step time.Duration
	stop context.CancelFunc // ends the run; nil: none runs
}

func newTerm(s *Service, runner Runner) *term {
	t := &term{Service: s, runner: runner, ended: make(chan struct{}, 1)}
	t.mu.states = map[string]*state{}
	return t
}

// run runs queries until ctx ends, or there are none.
func (t *term) run(ctx context.Context) {
	defer t.running.Wait()
	defer t.metrics.queries.Set(0)
	defer t.metrics.late.Set(0)
	defer t.follow(nil, time.Now()) // ends the runs
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	queries := t.options.Set.all()
	for {
		if t.metrics.queries.Set(float64(len(queries))); len(queries) == 0 {
			return
		}
		now := time.Now()
		t.follow(queries, now)
		t.begin(ctx, now)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-t.ended:
				t.begin(ctx, time.Now())
			case <-ticker.C:
				queries, waiting = t.options.Set.all(), false
			}
		}
	}
}

// follow takes over which queries there are. A run of one that is gone ends; another one of its name begins anew.
func (t *term) follow(queries []*Query, now time.Time) {
	wall := now.Round(0)
	t.mu.Lock()
	defer t.mu.Unlock()
	states := make(map[string]*state, len(queries))
	t.mu.order = t.mu.order[:0]
	for _, q := range queries {
		id := idOf(q.Database, q.Name)
		st := t.mu.states[id]
		if st == nil || st.query != q {
			st = &state{query: q, due: q.firstDue(wall)}
		} else if st.stop == nil && st.due.Sub(wall) > q.schedule.every { // the clock may have been set back
			if next := q.schedule.next(wall); next.Before(st.due) {
				st.due = next
			}
		}
		states[id] = st
		t.mu.order = append(t.mu.order, st)
	}
	for id, st := range t.mu.states {
		if st.stop != nil && states[id] != st {
			st.stop()
		}
	}
	t.mu.states = states
}

// begin begins the runs that are due, those first that are the latest, as far as there are places.
func (t *term) begin(ctx context.Context, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		st := t.latestLocked(now)
		if st == nil || t.mu.busy >= t.options.Parallel {
			late := time.Duration(0)
			if st != nil {
				late = now.Round(0).Sub(st.due)
			}
			t.metrics.late.Set(late.Seconds())
			return
		}
		run, stop := context.WithCancel(ctx)
		st.stop = stop
		t.mu.busy++
		t.running.Go(func() { t.runOne(run, st, now.Round(0)) })
	}
}

// latestLocked returns the query that is due for the longest time and does not run; nil: none is due.
func (t *term) latestLocked(now time.Time) (latest *state) {
	wall := now.Round(0)
	for _, st := range t.mu.order {
		if st.stop == nil && !wall.Before(st.due) && !now.Before(st.retry) && (latest == nil || st.due.Before(latest.due)) {
			latest = st
		}
	}
	return latest
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
	due, schedule := st.due, &st.query.schedule
	if oldest := now.Add(-lateMax); due.Before(oldest) && st.failures > 0 && due.Before(schedule.ran(now)) {
		t.metrics.givenUp.Inc()
		t.options.Logger.Warn("a continuous query has failed for so long that windows are left out", "database", access.Display(st.query.Database), "query", st.query.Name, "since", due)
		due, st.to = st.query.firstDue(now), time.Time{}
	}
	at := now
	if st.step > 0 && due.Add(st.step).Before(now) {
		at = due.Add(st.step)
	}
	from, to := schedule.windows(due, at)
	if !st.to.IsZero() && st.to.Before(from) { // as InfluxDB does it, a window would be left out where clocks are changed
		from = st.to
	}
	from = t.sinceKept(st.query, from, now)
	written, took, err := t.runWindows(ctx, st.query, from, to)
	t.mu.Lock()
	defer t.mu.Unlock()
	ended := ctx.Err() != nil
	st.stop()
	st.stop = nil
	t.mu.busy--
	select {
	case t.ended <- struct{}{}:
	default:
	}
	attributes := []any{"database", access.Display(st.query.Database), "query", st.query.Name, "rows", written, "took_ms", took.Milliseconds()}
	switch {
	case err == nil:
		st.due, st.failures, st.retry, st.step = schedule.next(at), 0, time.Time{}, 2*st.step
		if at.Equal(now) {
			st.step = 0
		}
		if from.Before(to) {
			st.to = to
		}
		t.metrics.runs.WithLabelValues("ok").Inc()
		t.options.Logger.Debug("a continuous query has run", attributes...)
	case !ended:
		st.failures++
		st.step = max(at.Sub(due)/2, schedule.every)
		st.due, st.retry = due, time.Now().Add(backoff.Exponential{Min: retryMin, Max: retryMax}.Delay(st.failures))
		t.metrics.runs.WithLabelValues("failed").Inc()
		t.options.Logger.Warn("a continuous query has failed; it is tried again", append(attributes, "error", err)...)
	}
	t.metrics.rows.Add(float64(written))
}

// sinceKept returns the start of the first of some windows of which samples have not been deleted already: to write such a one
// again, as after a start or with a long FOR, would replace what all of its samples have given. A run that is on time, or late as
// far as that is made up for, is none.
func (t *term) sinceKept(q *Query, from, now time.Time) time.Time {
	for _, database := range q.reads {
		kept := t.runner.Kept(database)
		if kept <= 0 {
			continue
		}
		if since := now.Add(-kept - lateMax); from.Before(since) {
			from = q.schedule.start(since.Add(q.schedule.interval - 1))
		}
	}
	return from
}

// runWindows runs a query over windows; there are none where from is not before to.
func (t *term) runWindows(ctx context.Context, q *Query, from, to time.Time) (written int64, took time.Duration, err error) {
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
