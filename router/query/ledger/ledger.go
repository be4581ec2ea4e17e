package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// textBytesMax is how much of a query's text is kept.
const textBytesMax = 4 << 10

// Query describes what is to run.
type Query struct {
	Dialect  string // "promql", "influxql", "opentsdb"
	Database string // whose limits hold, and whose use it is; "" is the default one
	// Others are further databases that it reads or changes. Who may see or cancel the
	// query has to have the right on them, too.
	Others []string
	Text   string // as the client sent it; its first 4 KiB are kept
	User   string // who asks; empty: unknown
}

// All reports whether something holds for each database of the query.
func (q *Query) All(holds func(database string) bool) bool {
	return holds(q.Database) && !slices.ContainsFunc(q.Others, func(database string) bool { return !holds(database) })
}

// Ledger is the book of queries. Safe for concurrent use.
type Ledger struct {
	options Options
	metrics *metrics
	places  chan struct{} // one for each query that runs
	bytes   atomic.Int64  // charged to all queries
	last    atomic.Uint64 // the newest id

	mu struct {
		sync.Mutex
		waiting int
		running map[uint64]*Entry
		of      map[string]int // queries that run, by database
		slow    []Report       // the oldest first
	}
}

// New returns an empty ledger.
func New(o Options) *Ledger {
	o.setDefaults()
	l := &Ledger{options: o, places: make(chan struct{}, o.RunningAllMax)}
	l.mu.running = map[uint64]*Entry{}
	l.mu.of = map[string]int{}
	l.metrics = newMetrics(l, o.Registerer)
	return l
}

type entryKey struct{}

// Begin lets a query in, waiting for a place while there is hope, and returns the context
// that it has to run under. Errors: *BusyError, or the context's. The entry must be ended.
func (l *Ledger) Begin(ctx context.Context, q Query) (context.Context, *Entry, error) {
	limits := l.options.Limits.with(l.options.LimitsOf(q.Database))
	cancelTimer := context.CancelFunc(func() {})
	if limits.Timeout > 0 {
		ctx, cancelTimer = context.WithTimeoutCause(ctx, limits.Timeout, ErrTimeout)
	}
	if err := l.enter(ctx, q.Database, limits.RunningMax); err != nil {
		cancelTimer()
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if len(q.Text) > textBytesMax {
		q.Text = strings.ToValidUTF8(q.Text[:textBytesMax], "") + "…"
	}
	e := &Entry{ledger: l, id: l.last.Add(1), query: q, limits: limits, began: l.options.Clock(), cancel: cancel, cancelTimer: cancelTimer}
	l.mu.Lock()
	l.mu.running[e.id] = e
	l.mu.Unlock()
	ctx = context.WithValue(ctx, entryKey{}, e)
	e.ctx = ctx
	return ctx, e, nil
}

// Prepare runs what a query needs before it can be described to Begin, such as parsing a text
// that names its databases, in a place of the ledger and no longer than it takes. Errors:
// *BusyError, the context's, or what run returns.
func (l *Ledger) Prepare(ctx context.Context, run func() error) error {
	if timeout := l.options.Limits.Timeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, ErrTimeout)
		defer cancel()
	}
	if err := l.enterPlace(ctx); err != nil {
		return err
	}
	defer func() { <-l.places }()
	return run()
}

// enter waits for a place, as a query of a database.
func (l *Ledger) enter(ctx context.Context, database string, runningMax int) error {
	if err := l.enterDatabase(database, runningMax); err != nil {
		return err
	}
	err := l.enterPlace(ctx)
	if err != nil {
		l.leaveDatabase(database)
	}
	return err
}

// enterPlace waits for a place.
func (l *Ledger) enterPlace(ctx context.Context) error {
	select {
	case l.places <- struct{}{}:
		return nil
	default:
	}
	if !l.wait(1) {
		return l.refuse("waiting", fmt.Sprintf("%d queries are running and %d wait", cap(l.places), l.options.WaitingMax))
	}
	defer l.wait(-1)
	select {
	case l.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		if context.Cause(ctx) == ErrTimeout { //nolint:errorlint // the cause is this very value
			return l.refuse("waiting", fmt.Sprintf("%d queries are running, and none of them ended in time", cap(l.places)))
		}
		return ctx.Err()
	}
}

// enterDatabase counts a query of a database, unless it has too many.
func (l *Ledger) enterDatabase(database string, runningMax int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if runningMax > 0 && l.mu.of[database] >= runningMax {
		return l.refuse("database", fmt.Sprintf("%d queries of this database are running or waiting, the most that it may have", runningMax))
	}
	l.mu.of[database]++
	return nil
}

func (l *Ledger) leaveDatabase(database string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.of[database]--; l.mu.of[database] == 0 {
		delete(l.mu.of, database)
	}
}

// wait counts the queries that wait, and reports whether there was room for one more.
func (l *Ledger) wait(change int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.waiting+change > l.options.WaitingMax {
		return false
	}
	l.mu.waiting += change
	return true
}

func (l *Ledger) refuse(cause, reason string) error {
	l.metrics.refused.WithLabelValues(cause).Inc()
	return &BusyError{Reason: reason}
}

func (l *Ledger) counts() (running, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.running), l.mu.waiting
}

// Report tells of one query.
type Report struct {
	ID uint64
	Query
	Began                  time.Time
	Took                   time.Duration // until now, for one that runs
	Series, Samples, Bytes int64         // read, read, and held at most
	Err                    string        // empty: it ended well, or runs
}

// Running returns the queries that run, the oldest first.
func (l *Ledger) Running() []Report {
	now := l.options.Clock()
	l.mu.Lock()
	all := make([]Report, 0, len(l.mu.running))
	for _, e := range l.mu.running {
		all = append(all, e.report(now, nil))
	}
	l.mu.Unlock()
	slices.SortFunc(all, func(a, b Report) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Slow returns the newest of the queries that took long, the newest first.
func (l *Ledger) Slow() []Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.mu.slow)
	slices.Reverse(all)
	return all
}

// Cancel ends a query, and reports whether it was running.
func (l *Ledger) Cancel(id uint64) bool {
	l.mu.Lock()
	e := l.mu.running[id]
	l.mu.Unlock()
	if e == nil {
		return false
	}
	e.cancel(ErrCanceled)
	return true
}

// remember keeps a slow query and forgets the oldest.
func (l *Ledger) remember(r Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.slow) == l.options.SlowMax {
		l.mu.slow = slices.Delete(l.mu.slow, 0, 1)
	}
	l.mu.slow = append(l.mu.slow, r)
}
