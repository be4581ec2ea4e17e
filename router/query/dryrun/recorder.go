package dryrun

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

const (
	// readsMax bounds the reads that a plan tells of; what a query asks for beyond is counted.
	readsMax = 256
	// sampled is how many series of a read are counted for its estimate.
	sampled = 4
)

// Recorder is a source that has no samples, and notes who asks for some. It is safe for concurrent use.
type Recorder struct {
	scan.Source
	notes *notes
}

// notes are shared by a recorder and those that Between returns.
type notes struct {
	sync.Mutex
	requests []noted
	omitted  int
}

// noted is one request, with the source that it was made to.
type noted struct {
	scan.Request
	last bool // it was for the newest sample of each series
}

// NewRecorder returns a recorder over the source of a query.
func NewRecorder(s scan.Source) *Recorder { return &Recorder{s, &notes{}} }

// Between implements scan.Dated.
func (r *Recorder) Between(fromMs, toMs int64) scan.Source {
	return &Recorder{scan.Between(r.Source, fromMs, toMs), r.notes}
}

// Scan implements scan.Source: it visits nothing.
func (r *Recorder) Scan(ctx context.Context, request *scan.Request, _ scan.Visitor) error {
	if request.Steps != nil {
		if err := request.Steps.Check(); err != nil {
			return err
		}
	}
	r.notes.add(noted{Request: *request})
	return ctx.Err()
}

// Last implements scan.Source: it visits nothing.
func (r *Recorder) Last(ctx context.Context, selector *scan.Selector, fromMs int64, _ scan.Limits, _ func(scan.Point) error) error {
	r.notes.add(noted{Request: scan.Request{Selector: *selector, FromMs: fromMs, ToMs: scan.TimeMsMax}, last: true})
	return ctx.Err()
}

func (n *notes) add(request noted) {
	n.Lock()
	defer n.Unlock()
	if len(n.requests) == readsMax {
		n.omitted++
		return
	}
	n.requests = append(n.requests, request)
}

// Plan returns what was asked for so far and what it costs, beside what is left of the limits. It asks the index for series, and for
// the counts of a few. Errors: those of the source.
func (r *Recorder) Plan(ctx context.Context, q Query, left scan.Limits) (*Plan, error) {
	r.notes.Lock()
	requests, omitted := r.notes.requests, r.notes.omitted
	r.notes.Unlock()
	plan := &Plan{Query: q, Reads: make([]Read, 0, len(requests)), ReadsOmitted: omitted}
	for i := range requests {
		read := describe(&requests[i].Request)
		read.Database = access.Display(read.Database)
		if requests[i].last {
			read.Sends = "newest samples"
		}
		var err error
		if read.Cost, err = r.cost(ctx, &requests[i]); err != nil {
			return nil, fmt.Errorf("estimating what %s costs: %w", read.Selector, err)
		}
		plan.Reads = append(plan.Reads, read)
		c := &plan.Estimate
		c.Series, c.Samples = add(c.Series, read.Series), add(c.Samples, read.Samples)
		c.Values, c.Bytes = add(c.Values, read.Values), add(c.Bytes, read.Bytes)
	}
	plan.Admission = admissionOf(plan.Estimate, left)
	return plan, nil
}

// What a sample, and a time, takes in memory.
const (
	sampleBytes = 16
	wordBytes   = 8
)

// cost estimates what a request takes.
func (r *Recorder) cost(ctx context.Context, request *noted) (c Cost, err error) {
	if request.FromMs > request.ToMs {
		return c, nil
	}
	var keys []series.Key
	c.Series, err = scan.Between(r.Source, request.FromMs, request.ToMs).Series(ctx, &request.Selector, sampled, func(key series.Key) error {
		keys = append(keys, append(series.Key{}, key...))
		return nil
	})
	if err != nil || len(keys) == 0 {
		return c, err
	}
	if request.last {
		c.Samples, c.Values, c.Bytes = c.Series, c.Series, sampleBytes*c.Series
		return c, nil
	}
	counted, values, seen := int64(0), int64(0), int64(0)
	for _, key := range keys {
		n, within, err := r.count(ctx, key, request)
		var limit *scan.LimitError
		if errors.As(err, &limit) {
			break // what was counted for other reads has used the query's limits up: the plan says so of the query itself
		}
		if err != nil {
			return c, err
		}
		if seen++; n > 0 {
			counted += n
			values += min(n, perSeries(&request.Request, within))
		}
	}
	c.Samples, c.Values = scale(counted, c.Series, max(seen, 1)), scale(values, c.Series, max(seen, 1))
	c.Bytes = scale(c.Values, sampleBytes, 1)
	if w := request.Windows; w != nil {
		c.Bytes = scale(c.Values, wordBytes*int64(1+bits.OnesCount8(uint8(w.Aggregates))), 1)
	}
	return c, nil
}

// stretch is a range of time, both ends inclusive.
type stretch struct{ fromMs, toMs int64 }

// perSeries returns how many values a series sends at most whose samples lie within a stretch of time.
func perSeries(request *scan.Request, within stretch) int64 {
	switch s, w := request.Steps, request.Windows; {
	case s != nil && s.Function == scan.StepNewest:
		return int64(s.Count())
	case s != nil:
		return min(int64(s.Count()), add(within.toMs-within.fromMs, s.RangeMs)/s.StepMs+1)
	case w != nil:
		return windowAt(w, within.toMs) - windowAt(w, within.fromMs) + 1
	}
	return math.MaxInt64
}

// windowAt returns the number of the window that a time is in.
func windowAt(w *scan.Windows, ms int64) int64 {
	return int64(math.Floor((float64(ms) - float64(w.OriginMs)) / float64(w.WidthMs)))
}

// count returns how many samples a series has within the time of a request, and where they are, by whole days.
func (r *Recorder) count(ctx context.Context, key series.Key, request *noted) (samples int64, within stretch, err error) {
	database, metric, tags, err := key.Parts(nil)
	if err != nil {
		return 0, within, err
	}
	one := scan.Request{
		Selector: scan.Selector{Database: string(database), Metric: string(metric), Exact: true}, FromMs: request.FromMs, ToMs: request.ToMs,
		Windows: &scan.Windows{WidthMs: scan.DayMs, Aggregates: scan.AggregateCount},
	}
	for _, tag := range tags {
		one.Matchers = append(one.Matchers, scan.Matcher{Name: string(tag.Name), Kind: scan.MatchEqual, Values: []string{string(tag.Value)}})
	}
	err = r.Source.Scan(ctx, &one, func(_ int, c *scan.Chunk) error {
		for i, n := range c.Count {
			if samples == 0 {
				within.fromMs = max(c.Times[i], request.FromMs)
			}
			samples, within.toMs = samples+n, min(c.Times[i]+scan.DayMs-1, request.ToMs)
		}
		return nil
	})
	return samples, within, err
}

// scale returns n·by/of, rounded, at most the greatest int64.
func scale(n, by, of int64) int64 {
	if f := float64(n) * float64(by) / float64(of); f < 1<<62 {
		return int64(f + 0.5)
	}
	return math.MaxInt64
}

// add returns a sum of numbers that are not negative, at most the greatest int64.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
