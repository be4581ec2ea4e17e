// Package scan is the border between query languages and storage: what may be
// asked of a set of series and how the answer arrives. Query front ends in the
// router consume Source; a node, or a fan-out over nodes, implements it. It uses
// the standard library, api/series and api/exactsum only.
package scan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tickmesh/tickmesh/api/exactsum"
	"github.com/tickmesh/tickmesh/api/series"
)

// MatchKind describes how a Matcher compares a tag's value. A tag that a series does
// not have counts as the empty string, as in Prometheus.
type MatchKind uint8

// The kinds of Matcher.
const (
	MatchEqual        MatchKind = iota // value is Values[0]
	MatchNotEqual                      // value is not Values[0]
	MatchIn                            // value is one of Values
	MatchNotIn                         // value is none of Values
	MatchEqualFold                     // value is one of Values, ignoring case (Unicode simple folding)
	MatchNotEqualFold                  // value is none of Values, ignoring case
	MatchRegexp                        // value matches Values[0], RE2, anchored at both ends
	MatchNotRegexp                     // value does not match Values[0], RE2, anchored at both ends
	MatchPresent                       // the series has the tag
	MatchAbsent                        // the series does not have the tag
)

// Matcher restricts series by one tag.
type Matcher struct {
	Name   string
	Kind   MatchKind
	Values []string
}

// Selector picks series. A Metric of "" with MetricAny set picks all metrics of
// the database. Exact restricts to series that have no other tags than the ones
// that Matchers name (OpenTSDB's explicitTags). Shards, sorted, restricts to the
// series of these shards; nil means all.
type Selector struct {
	Database  string
	Metric    string
	MetricAny bool
	Matchers  []Matcher
	Exact     bool
	Shards    []uint16
}

// Aggregate is a set of per-window functions.
type Aggregate uint8

// The functions that a window can carry.
const (
	AggregateSum Aggregate = 1 << iota
	AggregateCount
	AggregateMin
	AggregateMax
	AggregateFirst
	AggregateLast
	// AggregateDigest is DigestSamples of the window's samples. It goes with AggregateCount and
	// AggregateHidden only, and NaN counts for the first two.
	AggregateDigest
	// AggregateHidden is how many numbers other aggregates of the window's whole hours, in UTC, tell of that are not among its
	// samples, as of an hour before a cut of raw the last sample is kept. It goes with AggregateDigest.
	AggregateHidden
)

// Windows asks for aggregates by fixed window instead of samples: window n is
// [OriginMs+n·WidthMs, OriginMs+(n+1)·WidthMs), n may be negative. NaN samples
// (any payload) are left out of every aggregate, the count included, and a
// window that holds nothing else is not visited, but with AggregateDigest. Only samples in the request's
// range count, so its ends may cut a window.
//
// The sum of a window has the same bits wherever and however its samples are stored: those
// of each hour of UTC are added to 0 in order of time, the sums of the hours of each day
// in the same way, and then those of the days.
type Windows struct {
	OriginMs   int64
	WidthMs    int64
	Aggregates Aggregate

	// RecordedDigests lets the digests of whole days be those that were recorded when a file
	// was written, instead of reading the samples. They tell what was written or deleted, but
	// not what a disk has lost since.
	RecordedDigests bool
}

// The hour and the day of Request.EndsOfMs.
const (
	HourMs int64 = 60 * 60 * 1000
	DayMs        = 24 * HourMs
)

// Request asks for the samples of series in [FromMs, ToMs], both inclusive.
type Request struct {
	Selector
	FromMs, ToMs int64
	Windows      *Windows // nil: samples, or Steps
	Steps        *Steps   // nil: samples, or Windows
	Limits       Limits

	// EndsOfMs lets a scan of samples leave out those that are neither the first nor the last one of an hour of UTC
	// (HourMs), or of a day (DayMs); 0: it leaves out none. It is for callers that look for the newest sample at whole hours or days.
	EndsOfMs int64

	Parallel int // visitors running at once; 0 or 1: one

	// SamplesRead is told how many samples are read for Steps, as chunks do not show it; those that are read again, as
	// a node was lost, once more. Its error ends the scan. It is safe for concurrent use. Nil: nobody wants to know.
	SamplesRead func(samples int64) error
}

// ReadSamples tells SamplesRead.
func (r *Request) ReadSamples(samples int64) error {
	if r.SamplesRead == nil || samples == 0 {
		return nil
	}
	return r.SamplesRead(samples)
}

// Limits bound what one request may cost; 0 means no bound. Exceeding one ends
// the scan with a *LimitError.
type Limits struct {
	SeriesMax  int64   // series matched
	SamplesMax int64   // samples decoded
	BytesMax   int64   // memory held by the scan itself
	Account    Account // what that memory is charged to, beside other requests; nil: nothing
}

// Account bounds the memory of many requests together. Its methods are safe for concurrent use.
type Account interface {
	// Take charges bytes. An error ends the request; nothing is charged then.
	Take(bytes int64) error
	// Await is Take for a goroutine that can wait until others give bytes back: it holds nothing else that they need, and ctx
	// is its own.
	Await(ctx context.Context, bytes int64) error
	// Give takes bytes off the charge.
	Give(bytes int64)
	// Turn returns a channel with room for one, the same at each call: whoever has sent to it, and not received since,
	// has the turn of the account to hold what may be large. What several hold together is no measure of what is needed,
	// and they would wait for each other's.
	Turn() chan struct{}
}

// Holding is what one holder of memory has charged to an account. It is for one goroutine.
type Holding struct {
	Account Account // nil: nothing is charged
	bytes   int64
}

// heldUnit is what charges are multiples of: less is not worth the trouble.
const heldUnit = 16 << 10

// Hold changes the charge to about so many bytes. Errors: those of Account.Take.
func (h *Holding) Hold(bytes int64) error {
	return h.change(bytes, func(more int64) error { return h.Account.Take(more) })
}

// HoldInTime is Hold for a goroutine that can wait, as Account.Await has it.
func (h *Holding) HoldInTime(ctx context.Context, bytes int64) error {
	return h.change(bytes, func(more int64) error { return h.Account.Await(ctx, more) })
}

func (h *Holding) change(bytes int64, take func(more int64) error) error {
	bytes = bytes / heldUnit * heldUnit
	switch more := bytes - h.bytes; {
	case h.Account == nil || more == 0:
		return nil
	case more < 0:
		h.Account.Give(-more)
	default:
		if err := take(more); err != nil {
			return err
		}
	}
	h.bytes = bytes
	return nil
}

// Close releases all that is charged.
func (h *Holding) Close() { _ = h.Hold(0) } // which takes nothing

// LimitError describes which limit a request met.
type LimitError struct {
	What  string // "series", "samples" or "bytes"
	Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the query needs more than %d %s: narrow its time range or its filters, or raise the limit", e.Limit, e.What)
}

// ErrStopped is returned by a Visitor that wants no more; Scan then returns nil.
var ErrStopped = errors.New("scan stopped by its visitor")

// Chunk is a stretch of one series. The slices are reused by the scan once the
// visitor has returned. A series comes as one or more chunks in time order, all
// visited by one worker without another series between them.
//
// In a Request for samples, Times and Values have the same length, times grow
// strictly, deletes are applied and of equal times the later write has won.
// In a Request for windows, Times holds the starts of the windows that have at
// least one sample that counts and each requested aggregate's slice has the same length; a
// window is never split over chunks.
//
// In a Request for steps, Times are steps and Values what the function has there; of
// StepNewest both are the samples'. Of a group that was folded, Key is of the group, Series
// says of how many series it is, and there are Values; or with FoldCount Count, with FoldSum Count and Sums, with
// FoldGroup neither.
type Chunk struct {
	Key    series.Key
	Ref    series.Ref // where the series is; from sources that do not know: zero
	Times  []int64
	Values []float64

	Sum, Min, Max, First, Last []float64
	Count, Hidden              []int64
	Digest                     []uint64
	Sums                       []exactsum.Sum // large forms are the scan's: they are merged, not kept
	Series                     int64          // of a group that was folded; 0: this is one series
}

// Visitor receives chunks; worker is below Request.Parallel, and calls with the
// same worker never overlap.
type Visitor func(worker int, chunk *Chunk) error

// Point is the newest sample of a series.
type Point struct {
	Key series.Key
	Ref series.Ref // where the series is; from sources that do not know: zero
	series.Sample
}

// Source answers queries.
type Source interface {
	// Scan visits the samples or windows of all series that match.
	Scan(ctx context.Context, request *Request, visit Visitor) error
	// Last visits the newest sample at or after fromMs of each series that matches.
	Last(ctx context.Context, selector *Selector, fromMs int64, limits Limits, visit func(Point) error) error
	// Series visits the keys that match, at most limit of them (0: all), and
	// returns the number that match in all.
	Series(ctx context.Context, selector *Selector, limit int, visit func(series.Key) error) (total int64, err error)
	// Metrics, TagNames and TagValues return sorted names that start with prefix,
	// at most limit (0: all). An empty metric means all metrics, and for
	// TagValues an empty name the values of all tags.
	Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error)
	TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error)
	TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error)
	// Databases returns the sorted names of databases that have series.
	Databases(ctx context.Context) ([]string, error)
}

// Consistency is the read consistency that a reader accepts. The zero value: answers are whole
// and have every write that was answered before the read began.
type Consistency struct {
	StalenessMax time.Duration // answers may be so old; 0: not at all
	Partial      bool          // shards that nobody answers for may be missing
}

// Deleter removes samples.
type Deleter interface {
	// Delete hides all samples of the series that match in [FromMs, ToMs] that
	// were written before it, durably, and returns the number of series touched.
	Delete(ctx context.Context, selector *Selector, fromMs, toMs int64) (seriesTouched int64, err error)
}

// ExemplarSource is a source of exemplars.
type ExemplarSource interface {
	// Exemplars visits the exemplars in [fromMs, toMs], both inclusive, of the series that match: those of a series one after the
	// other, in ascending time. What is visited may be kept, and must not be changed.
	Exemplars(ctx context.Context, selector *Selector, fromMs, toMs int64, visit func(*series.Exemplar) error) error
}

// The whole of time, for requests without a bound.
const (
	TimeMsMin = math.MinInt64 / 4
	TimeMsMax = math.MaxInt64 / 4
)
