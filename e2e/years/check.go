package years

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// ErrWrong marks an answer that is not what was promised.
var ErrWrong = errors.New("the node did not keep its word")

// everything selects all series.
func everything() scan.Selector { return scan.Selector{MetricAny: true} }

func of(metric string) scan.Selector { return scan.Selector{Metric: metric} }

// readAll returns what the node holds of the series that match, between two times.
func readAll(n Copy, selector scan.Selector, fromMs, toMs int64) (map[string]*Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	var mu sync.Mutex
	got := map[string]*Answer{}
	err := n.Scan(ctx, &scan.Request{Selector: selector, FromMs: fromMs, ToMs: toMs, Parallel: 2}, func(_ int, c *scan.Chunk) error {
		mu.Lock()
		defer mu.Unlock()
		a := got[string(c.Key)]
		if a == nil {
			a = &Answer{}
			got[string(c.Key)] = a
		}
		for i, at := range c.Times {
			if k := len(a.TimeMs); k > 0 && at <= a.TimeMs[k-1] {
				return fmt.Errorf("%w: times of %s do not grow at %s", ErrWrong, c.Key, stamp(at))
			}
			a.TimeMs, a.Values = append(a.TimeMs, at), append(a.Values, c.Values[i])
		}
		return nil
	})
	return got, err
}

// checkSamples compares all samples. Of a node that is not well yet nothing is adopted.
func (o *Oracle) checkSamples(n Copy, adopt bool) error {
	got, err := readAll(n, everything(), scan.TimeMsMin, scan.TimeMsMax)
	if err != nil {
		return fmt.Errorf("read everything: %w", err)
	}
	if adopt {
		o.Forget()
	}
	if differences := o.Compare(got, adopt); len(differences) > 0 {
		return fmt.Errorf("%w: %q", ErrWrong, differences)
	}
	return nil
}

// checkWindows compares aggregates by hour and by day of a metric.
func (o *Oracle) checkWindows(n Copy, metric string, widthMs, toMs int64) error {
	h := o.Horizon(metric)
	fromMs := h.KeptMs
	if fromMs != math.MinInt64 {
		fromMs += widthMs - ((fromMs%widthMs)+widthMs)%widthMs
	} else {
		fromMs = 0
	}
	request := scan.Request{Selector: of(metric), FromMs: fromMs, ToMs: toMs - 1, Windows: &scan.Windows{
		WidthMs: widthMs, Aggregates: scan.AggregateSum | scan.AggregateCount | scan.AggregateMin | scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast,
	}}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	seen := map[string]int{}
	err := n.Scan(ctx, &request, func(_ int, c *scan.Chunk) error {
		l := o.Lines[string(c.Key)]
		if l == nil {
			return fmt.Errorf("%w: windows of %s, of which nothing should be there", ErrWrong, c.Key)
		}
		for i, at := range c.Times {
			want, got := l.window(at, widthMs), window{c.Count[i], c.Sum[i], c.Min[i], c.Max[i], c.First[i], c.Last[i]}
			if got != want {
				return fmt.Errorf("%w: the window of %s at %s is %v, want %v", ErrWrong, c.Key, stamp(at), got, want)
			}
			seen[string(c.Key)] += int(c.Count[i])
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("windows of %d ms of %s: %w", widthMs, metric, err)
	}
	for k, l := range o.Lines {
		if want := l.find(toMs) - l.find(fromMs); l.Metric == metric && want != seen[k] {
			return fmt.Errorf("%w: windows of %s have %d samples, want %d", ErrWrong, l.Key, seen[k], want)
		}
	}
	return nil
}

// window is what is said of a window's samples.
type window struct {
	count                      int64
	sum, min, max, first, last float64
}

// window returns what is to be said of a window: sums are those of hours, of which those of days are made.
func (l *Line) window(startMs, widthMs int64) (w window) {
	w.min, w.max = math.Inf(1), math.Inf(-1)
	for hour := startMs; hour < startMs+widthMs; hour += hourMs {
		sum := 0.0
		for i := l.find(hour); i < len(l.TimeMs) && l.TimeMs[i] < hour+hourMs; i++ {
			v := math.Float64frombits(l.Bits[i])
			if w.count == 0 {
				w.first = v
			}
			w.count, w.last, w.min, w.max = w.count+1, v, min(w.min, v), max(w.max, v)
			sum += v
		}
		w.sum += sum
	}
	return w
}

// checkLast compares the newest samples of all series since a time.
func (o *Oracle) checkLast(n Copy, fromMs int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	selector := everything()
	seen := map[string]bool{}
	err := n.Last(ctx, &selector, fromMs, scan.Limits{}, func(p scan.Point) error {
		l := o.Lines[string(p.Key)]
		if l == nil || len(l.TimeMs) == 0 {
			return fmt.Errorf("%w: a newest sample of %s, of which nothing should be there", ErrWrong, p.Key)
		}
		seen[string(p.Key)] = true
		last := len(l.TimeMs) - 1
		if p.TimeMs != l.TimeMs[last] || math.Float64bits(p.Value) != l.Bits[last] {
			return fmt.Errorf("%w: the newest of %s is %v at %s, want %v at %s", ErrWrong, p.Key, p.Value, stamp(p.TimeMs),
				math.Float64frombits(l.Bits[last]), stamp(l.TimeMs[last]))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("newest samples: %w", err)
	}
	for k, l := range o.Lines {
		kept := max(fromMs, o.Horizon(l.Metric).KeptMs)
		if len(l.TimeMs) > 0 && l.TimeMs[len(l.TimeMs)-1] >= kept && !seen[k] {
			return fmt.Errorf("%w: %s has no newest sample", ErrWrong, l.Key)
		}
	}
	return nil
}

// checkSeries compares the list of series of a range: all that have samples in it are there, and none that was never
// written on a day of it. An hour may reach into the next day: the clock goes on a little while a node recovers.
func (o *Oracle) checkSeries(n Copy, fromMs, toMs int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	selector := everything()
	listed := map[string]bool{}
	_, err := n.SeriesBetween(ctx, &selector, fromMs, toMs, 0, func(k series.Key) error {
		listed[string(k)] = true
		for day := floorDay(fromMs); day <= toMs; day += dayMs {
			if o.TouchedOn(day, k) {
				return nil
			}
		}
		return fmt.Errorf("%w: %s is listed from %s to %s, and was never written on a day of that", ErrWrong, k, stamp(fromMs), stamp(toMs))
	})
	if err != nil {
		return fmt.Errorf("series of a range: %w", err)
	}
	for k, l := range o.Lines {
		if i := l.find(max(fromMs, o.Horizon(l.Metric).KeptMs)); i < len(l.TimeMs) && l.TimeMs[i] <= toMs && !listed[k] {
			return fmt.Errorf("%w: %s has a sample at %s and is not listed", ErrWrong, l.Key, stamp(l.TimeMs[i]))
		}
	}
	return nil
}

// checkDigests compares what is digested of a day of all shards, as copies are compared, and the digests of its
// windows. The day has to be one that retention has not reached.
func (o *Oracle) checkDigests(n Copy, dayStartMs int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	sharding := n.Sharding()
	want := make([]transfer.Digest, sharding.Shards)
	for _, l := range o.Lines {
		if dayStartMs < o.Horizon(l.Metric).KeptMs {
			return fmt.Errorf("retention has reached the day of %s", l.Metric)
		}
		if timesMs, _ := l.day(dayStartMs); len(timesMs) > 0 {
			d := &want[sharding.Of(l.Key)]
			d.Series, d.Samples = d.Series+1, d.Samples+int64(len(timesMs))
		}
	}
	for shard := range want {
		d, err := n.DigestRange(ctx, uint16(shard), dayStartMs, dayStartMs+dayMs-1)
		if err != nil {
			return fmt.Errorf("digest of shard %d: %w", shard, err)
		}
		if d.Samples != want[shard].Samples || d.Series != want[shard].Series {
			return fmt.Errorf("%w: digested of shard %d on %s are %+v, want %+v", ErrWrong, shard, stamp(dayStartMs), d, want[shard])
		}
	}
	for _, recorded := range []bool{false, true} {
		request := scan.Request{
			Selector: everything(), FromMs: dayStartMs, ToMs: dayStartMs + dayMs - 1,
			Windows: &scan.Windows{WidthMs: dayMs, Aggregates: scan.AggregateCount | scan.AggregateDigest, RecordedDigests: recorded},
		}
		err := n.Scan(ctx, &request, func(_ int, c *scan.Chunk) error {
			timesMs, values := o.line(c.Key).day(dayStartMs)
			if want := scan.DigestSamples(timesMs, values); len(c.Digest) != 1 || c.Digest[0] != want {
				return fmt.Errorf("%w: the digests of %s on %s (recorded: %t) are %x, want %x", ErrWrong, c.Key, stamp(dayStartMs), recorded, c.Digest, want)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// day returns what a line has of a day.
func (l *Line) day(startMs int64) (timesMs []int64, values []float64) {
	from, to := l.find(startMs), l.find(startMs+dayMs)
	for _, bits := range l.Bits[from:to] {
		values = append(values, math.Float64frombits(bits))
	}
	return l.TimeMs[from:to], values
}
