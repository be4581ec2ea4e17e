package admission

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits bound one query; RunningMax bounds the queries of one database at once. 0 means
// no bound.
type Limits struct {
	SeriesMax, SamplesMax int64
	BytesMax              int64 // memory held
	RunningMax            int
	Timeout               time.Duration
}

// stricter returns the lower of two limits, of which 0 is none.
func stricter[T int | int64 | time.Duration](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// with returns limits of which each is the stricter one.
func (l Limits) with(other Limits) Limits {
	return Limits{
		SeriesMax: stricter(l.SeriesMax, other.SeriesMax), SamplesMax: stricter(l.SamplesMax, other.SamplesMax),
		BytesMax: stricter(l.BytesMax, other.BytesMax), RunningMax: stricter(l.RunningMax, other.RunningMax),
		Timeout: stricter(l.Timeout, other.Timeout),
	}
}

// Options is what a Controller is made of. Every field has a default.
type Options struct {
	Limits // of each query. RunningMax is meant for each database

	RunningAllMax int   // queries at once; default 64
	WaitingMax    int   // queries that wait for a place; more are refused; default 256
	BytesAllMax   int64 // memory of all queries together, beyond which a query that wants more is ended; 0: none

	// Ended is told of each query that has ended, and of its time. Nil: nobody is.
	Ended func(q Query, took time.Duration)

	// LimitsOf returns the limits of a database. Those of Options hold beside them. Nil: none.
	LimitsOf func(database string) Limits

	SlowerThan time.Duration // what counts as slow; default 1 s
	SlowMax    int           // slow queries that are remembered, the newest; default 256

	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are not registered
	Clock      func() time.Time      // nil: time.Now
}

func (o *Options) setDefaults() {
	if o.RunningAllMax <= 0 {
		o.RunningAllMax = 64
	}
	if o.WaitingMax <= 0 {
		o.WaitingMax = 256
	}
	o.BytesMax = stricter(o.BytesMax, maxOfOne(o.BytesAllMax)) // what is more than one may have is too large, whoever else runs
	if o.LimitsOf == nil {
		o.LimitsOf = func(string) Limits { return Limits{} }
	}
	if o.SlowerThan <= 0 {
		o.SlowerThan = time.Second
	}
	if o.SlowMax <= 0 {
		o.SlowMax = 256
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
}
