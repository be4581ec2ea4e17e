package tenant

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/series"
)

// Burst is how far an account may be ahead of its rate and still take more.
const Burst = time.Second

// Account is what one database uses. All methods are safe for concurrent use and do not
// allocate, but for errors.
type Account struct {
	name string
	all  bool // of all databases beyond the bound of accounts
	now  func() int64

	nsPerSample atomic.Uint64 // bits of a float64; 0: no bound
	aheadTo     atomic.Int64  // where the rate would have got by now, in ns of now

	used  atomic.Int64 // samples and queries, for the ranking
	score int64        // of the Meter's ranking
	seen  int64        // used as of the ranking before
	sums  atomic.Pointer[sums]
}

// sums are counters under one label.
type sums struct {
	accepted, refused, failed, late, bytes, queries, queryNs atomic.Int64
}

// RateError reports that a database is written faster than it may be. It is a
// series.ErrOverloaded.
type RateError struct {
	Database   string
	PerSecond  int64
	RetryAfter time.Duration // then more is taken, unless others come first
}

func (e *RateError) Error() string {
	return fmt.Sprintf("database %q may have %d samples a second, and more have come: %v", access.Display(e.Database), e.PerSecond, series.ErrOverloaded)
}

// Unwrap returns series.ErrOverloaded.
func (e *RateError) Unwrap() error { return series.ErrOverloaded }

// Name returns the database.
func (a *Account) Name() string { return a.name }

// setRate sets how many samples a second are taken; 0 or less: no bound.
func (a *Account) setRate(perSecond int64) {
	ns := 0.0
	if perSecond > 0 {
		ns = float64(time.Second) / float64(perSecond)
	}
	a.nsPerSample.Store(math.Float64bits(ns))
}

// cost returns the time that samples take at the rate; 0: there is none.
func (a *Account) cost(samples int) int64 {
	ns := math.Float64frombits(a.nsPerSample.Load())
	if ns == 0 {
		return 0
	}
	return int64(min(ns*float64(samples), float64(math.MaxInt64/4)))
}

// Take takes samples, all or none. Errors: *RateError.
func (a *Account) Take(samples int) error {
	cost := a.cost(samples)
	if cost == 0 {
		return nil
	}
	for {
		now, ahead := a.now(), a.aheadTo.Load()
		if ahead > now+int64(Burst) {
			a.sums.Load().late.Add(int64(samples))
			return &RateError{a.name, a.perSecond(), time.Duration(ahead - now - int64(Burst))}
		}
		if a.aheadTo.CompareAndSwap(ahead, max(ahead, now)+cost) {
			return nil
		}
	}
}

func (a *Account) perSecond() int64 {
	return int64(math.Round(float64(time.Second) / math.Float64frombits(a.nsPerSample.Load())))
}

// Spend takes samples that nobody can be told to keep: those of connections that are slowed
// afterwards, by Ahead.
func (a *Account) Spend(samples int) {
	cost := a.cost(samples)
	if cost == 0 {
		return
	}
	for {
		ahead := a.aheadTo.Load()
		if a.aheadTo.CompareAndSwap(ahead, max(ahead, a.now())+cost) {
			return
		}
	}
}

// Give returns to the rate what was taken and not written.
func (a *Account) Give(samples int) { a.aheadTo.Add(-a.cost(samples)) }

// Ahead returns how long no more should be taken; 0: it may be.
func (a *Account) Ahead() time.Duration {
	if a.nsPerSample.Load() == 0 {
		return 0
	}
	return max(0, time.Duration(a.aheadTo.Load()-a.now())-Burst)
}

// Wrote notes what became of a write: samples that are written, that are wrong or that
// storage refused, and that an error hit; and how many bytes it had as it was sent.
func (a *Account) Wrote(accepted, refused, failed, bytes int) {
	s := a.sums.Load()
	s.accepted.Add(int64(accepted))
	s.bytes.Add(int64(bytes))
	a.used.Add(int64(accepted))
	if refused|failed != 0 {
		s.refused.Add(int64(refused))
		s.failed.Add(int64(failed))
	}
}

// Queried notes a query that has ended.
func (a *Account) Queried(took time.Duration) {
	s := a.sums.Load()
	s.queries.Add(1)
	s.queryNs.Add(int64(took))
	a.used.Add(1)
}
