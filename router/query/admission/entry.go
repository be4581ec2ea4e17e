package admission

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
)

// Entry is one query in the book. Its methods are safe for concurrent use, but End, which
// is called once, last. All methods of a nil Entry do nothing and allow everything, so
// that code that reads can be used outside of a query.
type Entry struct {
	controller  *Controller
	id          uint64
	query       Query
	owner       string // whom it is charged to
	limits      Limits
	began       time.Time
	ctx         context.Context
	cancel      context.CancelCauseFunc
	cancelTimer context.CancelFunc

	series, samples atomic.Int64
	bytes, most     atomic.Int64
	memory          budget.Lease // of what all queries may hold
	turn            chan struct{}
	signedIn        *time.Timer // looks whether who asked still is somebody; nil: nobody in particular asked
}

// Of returns the entry of the query that a context belongs to, or nil.
func Of(ctx context.Context) *Entry {
	e, _ := ctx.Value(entryKey{}).(*Entry)
	return e
}

// lookAfter ends the query when who asked is nobody any more.
func (e *Entry) lookAfter(p access.Principal) {
	e.signedIn = time.AfterFunc(math.MaxInt64, func() {
		switch {
		case e.ctx.Err() != nil: // also where End has stopped the timer meanwhile
		case !p.May(e.query.Database, 0):
			e.cancel(ErrSignedOut)
		default:
			e.signedIn.Reset(signedInEvery)
		}
	})
	e.signedIn.Reset(signedInEvery) // now that the field is set
}

// Take charges memory, until Give or End. Errors: a *scan.LimitError beyond the query's limit, a *BusyError
// beyond that of all queries; nothing is charged then.
func (e *Entry) Take(bytes int64) error {
	if e == nil {
		return nil
	}
	if err := e.hold(bytes); err != nil {
		return err
	}
	if !e.memory.Charge(bytes) {
		e.bytes.Add(-bytes)
		return e.refuseMemory()
	}
	e.noteMost()
	return nil
}

// hold notes memory that the query has more, unless that is more than its own limit.
func (e *Entry) hold(bytes int64) error {
	for {
		held := e.bytes.Load()
		if most := e.limits.BytesMax; most > 0 && held+bytes > most {
			return &scan.LimitError{What: "bytes", Limit: most}
		}
		if e.bytes.CompareAndSwap(held, held+bytes) {
			return nil
		}
	}
}

// noteMost notes what the query holds, if it never held as much.
func (e *Entry) noteMost() {
	held := e.bytes.Load()
	for most := e.most.Load(); held > most && !e.most.CompareAndSwap(most, held); {
		most = e.most.Load()
	}
}

func (e *Entry) refuseMemory() error {
	return e.controller.refuse("memory", "the queries that are running hold all the memory that there is for queries")
}

// Await is Take for a goroutine that can wait for memory that other queries hold, as scan.Account has it. What is refused is
// not charged.
func (e *Entry) Await(ctx context.Context, bytes int64) error {
	if e == nil {
		return nil
	}
	if most := e.limits.BytesMax; most > 0 && e.bytes.Load()+bytes > most {
		return &scan.LimitError{What: "bytes", Limit: most}
	}
	if err := e.acquire(ctx, bytes); err != nil {
		return err
	}
	if err := e.hold(bytes); err != nil { // others of the query have taken some meanwhile
		e.memory.Release(bytes)
		return err
	}
	e.noteMost()
	return nil
}

// acquire waits for memory of all queries.
func (e *Entry) acquire(ctx context.Context, bytes int64) error {
	spare := e.controller.memory.BytesMax() / scansLeave
	switch err := e.memory.AcquireLeaving(ctx, bytes, spare, func() { processor.Of(ctx).Idle() }); {
	case err == nil:
		return nil
	case errors.Is(err, budget.ErrTooLarge):
		return &scan.LimitError{What: "bytes", Limit: e.controller.memory.BytesMax()}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return e.refuseMemory()
}

// Turn implements scan.Account.
func (e *Entry) Turn() chan struct{} {
	if e == nil {
		return nil
	}
	return e.turn
}

// Give takes memory off the charge that is not held any more: no more than Take or Await has charged.
func (e *Entry) Give(bytes int64) {
	if e == nil {
		return
	}
	e.bytes.Add(-bytes)
	e.memory.Charge(-bytes)
}

// Count notes what was read. Error: a *scan.LimitError.
func (e *Entry) Count(series, samples int64) error {
	if e == nil {
		return nil
	}
	if n := e.series.Add(series); e.limits.SeriesMax > 0 && n > e.limits.SeriesMax {
		return &scan.LimitError{What: "series", Limit: e.limits.SeriesMax}
	}
	if n := e.samples.Add(samples); e.limits.SamplesMax > 0 && n > e.limits.SamplesMax {
		return &scan.LimitError{What: "samples", Limit: e.limits.SamplesMax}
	}
	return nil
}

// Uncount takes off what Count has noted of reads that are made once more, or were for nothing.
func (e *Entry) Uncount(series, samples int64) {
	if e == nil {
		return
	}
	takeOff(&e.series, series)
	takeOff(&e.samples, samples)
}

// takeOff leaves 0 where there is not as much.
func takeOff(from *atomic.Int64, n int64) {
	for {
		has := from.Load()
		if from.CompareAndSwap(has, max(0, has-n)) {
			return
		}
	}
}

// Limits returns what is left of the query's limits, for one more scan. A limit that is used
// up leaves 1, not 0, which would be none. What the scan holds is charged to the entry.
func (e *Entry) Limits() scan.Limits {
	if e == nil {
		return scan.Limits{}
	}
	left := func(limit, used int64) int64 {
		if limit == 0 {
			return 0
		}
		return max(1, limit-used)
	}
	return scan.Limits{
		SeriesMax: left(e.limits.SeriesMax, e.series.Load()), SamplesMax: left(e.limits.SamplesMax, e.samples.Load()),
		BytesMax: left(e.limits.BytesMax, e.bytes.Load()), Account: e,
	}
}

// End closes the entry with the error of its answer, nil when it went well, gives back
// what it holds, and remembers it when it was slow.
func (e *Entry) End(err error) {
	if e == nil {
		return
	}
	l := e.controller
	if err == nil {
		err = context.Cause(e.ctx)
	}
	report := e.report(l.options.Clock(), err)
	e.memory.Close()
	l.mu.Lock()
	delete(l.mu.running, e.id)
	l.mu.Unlock()
	l.leaveDatabases(&e.query)
	l.places.release(e.owner)

	m, dialect := l.metrics, e.query.Dialect
	m.ended.WithLabelValues(dialect, outcome(err, e.ctx)).Inc()
	m.seconds.WithLabelValues(dialect).Observe(report.Took.Seconds())
	m.samples.WithLabelValues(dialect).Add(float64(report.Samples))
	if l.options.Ended != nil {
		l.options.Ended(e.query, report.Took)
	}
	if report.Took >= l.options.SlowerThan {
		m.slow.WithLabelValues(dialect).Inc()
		l.remember(report)
		l.options.Logger.LogAttrs(e.ctx, slog.LevelWarn, "slow query", slog.String("dialect", dialect),
			slog.String("database", e.query.Database), slog.String("user", e.query.User), slog.String("query", e.query.Text),
			slog.Duration("took", report.Took), slog.Int64("series", report.Series), slog.Int64("samples", report.Samples),
			slog.Int64("bytes", report.Bytes), slog.String("error", report.Err))
	}
	e.cancel(nil)
	e.cancelTimer()
	if e.signedIn != nil {
		e.signedIn.Stop()
	}
}

func (e *Entry) report(now time.Time, err error) Report {
	r := Report{ID: e.id, Query: e.query, Began: e.began, Took: now.Sub(e.began),
		Series: e.series.Load(), Samples: e.samples.Load(), Bytes: e.most.Load()}
	if err != nil {
		r.Err = err.Error()
	}
	return r
}

// outcome names how a query ended.
func outcome(err error, ctx context.Context) string {
	var limit *scan.LimitError
	var busy *BusyError
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &limit):
		return "limit"
	case errors.As(err, &busy):
		return "busy"
	case errors.Is(cause, ErrTimeout):
		return "timeout"
	case cause != nil:
		return "canceled"
	}
	return "error"
}
