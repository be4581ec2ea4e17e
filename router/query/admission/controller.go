package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/processor"
)

const (
	// memoryWaitMax is how long a scan waits for memory that other queries hold.
	memoryWaitMax = 10 * time.Second
	// scansLeave is the part of all memory that scans which can wait leave to those who cannot.
	scansLeave = 4
	// signedInEvery is how often a query that runs looks whether who asked still is somebody.
	signedInEvery = time.Second
	// unbounded is a bound of memory that nobody comes to; multiples of it are numbers, too.
	unbounded = math.MaxInt64 / (2 * spareFraction)
)

// textBytesMax is how much of a query's text is kept.
const textBytesMax = 4 << 10

// Query describes what is to run.
type Query struct {
	Dialect  string // "promql", "influxql", "opentsdb"
	Database string // whose use it is; "" is the default one
	// Others are further databases that it reads or changes, each another one. Their limits hold, too: the strictest. Who may see or
	// cancel the query has to have the right on them, too.
	Others []string
	Text   string // as the client sent it; its first 4 KiB are kept
	User   string // who asks; empty: unknown
}

// All reports whether something holds for each database of the query.
func (q *Query) All(holds func(database string) bool) bool {
	return holds(q.Database) && !slices.ContainsFunc(q.Others, func(database string) bool { return !holds(database) })
}

// Controller admits queries and bounds what they cost. It is safe for concurrent use.
type Controller struct {
	options Options
	metrics *metrics
	places  *places
	memory  *budget.Pool  // what queries are charged for
	last    atomic.Uint64 // the newest id

	mu struct {
		sync.Mutex
		running map[uint64]*Entry
		of      map[string]int // queries that run, by database
		slow    []Report       // the oldest first
	}
}

// New returns a Controller that runs no queries.
func New(o Options) *Controller {
	o.setDefaults()
	bytesMax := int64(unbounded)
	if o.BytesAllMax > 0 {
		bytesMax = min(o.BytesAllMax, unbounded)
	}
	l := &Controller{options: o, places: newPlaces(o.RunningAllMax, o.WaitingMax), memory: budget.NewForTenants(bytesMax, memoryWaitMax, spareFraction-1)}
	l.mu.running = map[uint64]*Entry{}
	l.mu.of = map[string]int{}
	l.metrics = newMetrics(l, o.Registerer)
	return l
}

// Bytes returns the memory that all queries are charged for.
func (c *Controller) Bytes() int64 { return c.memory.Stats().Used }

type entryKey struct{}

// Begin lets a query in, waiting for a place while there is hope, and returns the context
// that it has to run under. Errors: *BusyError, or the context's. The entry must be ended.
func (c *Controller) Begin(ctx context.Context, q Query) (context.Context, *Entry, error) {
	limits := c.options.Limits.with(c.options.LimitsOf(q.Database))
	for _, database := range q.Others {
		limits = limits.with(c.options.LimitsOf(database))
	}
	cancelTimer := context.CancelFunc(func() {})
	if limits.Timeout > 0 {
		ctx, cancelTimer = context.WithTimeoutCause(ctx, limits.Timeout, ErrTimeout)
	}
	owner := ownerOf(ctx, &q)
	if err := c.enter(ctx, owner, &q); err != nil {
		cancelTimer()
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if len(q.Text) > textBytesMax {
		q.Text = strings.ToValidUTF8(q.Text[:textBytesMax], "") + "…"
	}
	e := &Entry{controller: c, id: c.last.Add(1), query: q, owner: owner, limits: limits, began: c.options.Clock(), cancel: cancel, cancelTimer: cancelTimer, turn: make(chan struct{}, 1)}
	e.memory = c.memory.Lease(budget.Owner{Tenant: "user " + owner})
	c.mu.Lock()
	c.mu.running[e.id] = e
	c.mu.Unlock()
	ctx = context.WithValue(ctx, entryKey{}, e)
	e.ctx = ctx
	if access.Known(ctx) {
		e.lookAfter(access.Of(ctx))
	}
	return ctx, e, nil
}

// Prepare runs what a query needs before it can be described to Begin, such as parsing a text
// that names its databases, in a place of admission control and no longer than it takes. Errors:
// *BusyError, the context's, or what run returns.
func (c *Controller) Prepare(ctx context.Context, run func() error) error {
	if timeout := c.options.Limits.Timeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, ErrTimeout)
		defer cancel()
	}
	owner := ownerOf(ctx, &Query{})
	if err := c.enterPlace(ctx, owner); err != nil {
		return err
	}
	defer c.places.release(owner)
	return run()
}

// ownerOf returns whom a query is charged to: who has the request's work, or else its user.
func ownerOf(ctx context.Context, q *Query) string {
	return cmp.Or(processor.Of(ctx).Owner(), q.User)
}

// enter waits for a place, as a query of its databases.
func (c *Controller) enter(ctx context.Context, owner string, q *Query) error {
	if err := c.enterDatabases(q); err != nil {
		return err
	}
	err := c.enterPlace(ctx, owner)
	if err != nil {
		c.leaveDatabases(q)
	}
	return err
}

// enterPlace waits for a place.
func (c *Controller) enterPlace(ctx context.Context, owner string) error {
	if c.places.tryAcquire(owner) {
		return nil
	}
	processor.Of(ctx).Idle()
	err := c.places.acquire(ctx, owner)
	switch running, waiting := c.places.counts(); {
	case err == nil:
		return nil
	case errors.Is(err, errNoRoom):
		return c.refuse("waiting", fmt.Sprintf("%d queries are running and %d wait", running, waiting))
	case context.Cause(ctx) == ErrTimeout: //nolint:errorlint // the cause is this very value
		return c.refuse("waiting", fmt.Sprintf("%d queries are running, and none of them ended in time", running))
	}
	return err
}

// enterDatabases counts a query of databases, unless one of them has too many.
func (c *Controller) enterDatabases(q *Query) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	runningMax := 0
	room := q.All(func(database string) bool {
		runningMax = c.options.Limits.with(c.options.LimitsOf(database)).RunningMax
		return runningMax <= 0 || c.mu.of[database] < runningMax
	})
	if !room {
		return c.refuse("database", fmt.Sprintf("%d queries of this database are running or waiting, the most that it may have", runningMax))
	}
	q.All(func(database string) bool {
		c.mu.of[database]++
		return true
	})
	return nil
}

func (c *Controller) leaveDatabases(q *Query) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q.All(func(database string) bool {
		if c.mu.of[database]--; c.mu.of[database] == 0 {
			delete(c.mu.of, database)
		}
		return true
	})
}

func (c *Controller) refuse(cause, reason string) error {
	c.metrics.refused.WithLabelValues(cause).Inc()
	return &BusyError{Reason: reason}
}

// Report describes one query.
type Report struct {
	ID uint64
	Query
	Began                  time.Time
	Took                   time.Duration // until now, for one that runs
	Series, Samples, Bytes int64         // read, read, and held at most
	Err                    string        // empty: it ended well, or runs
}

// Running returns the queries that run, the oldest first.
func (c *Controller) Running() []Report {
	now := c.options.Clock()
	c.mu.Lock()
	all := make([]Report, 0, len(c.mu.running))
	for _, e := range c.mu.running {
		all = append(all, e.report(now, nil))
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b Report) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Slow returns the newest of the queries that took long, the newest first.
func (c *Controller) Slow() []Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.mu.slow)
	slices.Reverse(all)
	return all
}

// Cancel ends a query, and reports whether it was running.
func (c *Controller) Cancel(id uint64) bool {
	c.mu.Lock()
	e := c.mu.running[id]
	c.mu.Unlock()
	if e == nil {
		return false
	}
	e.cancel(ErrCanceled)
	return true
}

// remember keeps a slow query and forgets the oldest.
func (c *Controller) remember(r Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.slow) == c.options.SlowMax {
		c.mu.slow = slices.Delete(c.mu.slow, 0, 1)
	}
	c.mu.slow = append(c.mu.slow, r)
}
