package promdiff

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
)

// Series is one series with its samples, by time.
type Series struct {
	Labels  labels.Labels
	TimesMs []int64
	Values  []float64
}

// ScrapeMs is the time between two samples of a series that misses none.
const ScrapeMs = 15_000

// Data makes series of the usual kinds: counters with resets, gauges, classic histograms,
// series that come late, pause, end with a staleness marker, or hold what is no number.
// Values are whole, so that sums are the same in any order. Times are whole
// milliseconds but never whole seconds: no sample lies at the edge of a range.
//
// Portable counters begin far from zero and never again: how far a rate goes beyond the
// samples of a counter that begins near zero has changed since Prometheus 2.42.
func Data(rng *rand.Rand, fromMs, toMs int64, portable bool) []Series {
	var all []Series
	add := func(next func(i int) float64, l ...string) {
		s := Series{Labels: labels.FromStrings(l...)}
		at := fromMs + rng.Int64N(ScrapeMs)
		at += 1 + (at%1000+1000)%1000/999
		from, to := fromMs, toMs
		if rng.IntN(6) == 0 {
			from += rng.Int64N(toMs - fromMs)
		}
		ends := rng.IntN(6) == 0
		if ends {
			to -= rng.Int64N(toMs - fromMs)
		}
		gappy := rng.IntN(4) == 0
		for i := 0; at < to; i, at = i+1, at+ScrapeMs {
			v := next(i)
			if at < from || gappy && i/20%3 == 1 {
				continue
			}
			jitter := at + rng.Int64N(400)
			if jitter%1000 == 0 {
				jitter++
			}
			s.TimesMs, s.Values = append(s.TimesMs, jitter), append(s.Values, v)
		}
		if n := len(s.TimesMs); ends && n > 0 {
			s.TimesMs, s.Values = append(s.TimesMs, s.TimesMs[n-1]+ScrapeMs+1000), append(s.Values, math.Float64frombits(value.StaleNaN))
		}
		if len(s.TimesMs) > 0 {
			all = append(all, s)
		}
	}
	for i := range 12 {
		job, instance := fmt.Sprintf("job%d", i%3), fmt.Sprintf("10.0.0.%d:9100", i)
		add(func(int) float64 { return float64(min(1, rng.IntN(10))) }, "__name__", "up", "job", job, "instance", instance)
		add(func(int) float64 { return float64(1 + rng.IntN(1_000_000)) }, "__name__", "memory_bytes", "job", job, "instance", instance, "kind", "used")
		for _, code := range []string{"200", "404", "500"} {
			add(counter(rng, portable), "__name__", "http_requests_total", "job", job, "instance", instance, "code", code)
		}
	}
	for i := range 4 {
		add(odd(rng), "__name__", "temperature_celsius", "room", fmt.Sprintf("r%d", i))
		buckets := histogramBuckets(rng, portable)
		for j, le := range []string{"0.1", "0.5", "1", "2.5", "+Inf"} {
			add(buckets(j), "__name__", "latency_seconds_bucket", "job", fmt.Sprintf("job%d", i), "le", le)
		}
	}
	return all
}

// farFromZero is where portable counters begin.
const farFromZero = 1e7

// counter grows, and starts again now and then.
func counter(rng *rand.Rand, portable bool) func(int) float64 {
	total := float64(rng.IntN(1000))
	if portable {
		total += farFromZero
	}
	return func(int) float64 {
		if rng.IntN(60) == 0 && !portable {
			total = 0
		}
		total += float64(rng.IntN(200))
		return total
	}
}

// odd is a gauge that is sometimes no number.
func odd(rng *rand.Rand) func(int) float64 {
	return func(int) float64 {
		switch rng.IntN(40) {
		case 0:
			return math.NaN()
		case 1:
			return math.Inf(1)
		}
		return float64(1 + rng.IntN(60))
	}
}

// histogramBuckets returns the counters of its buckets, each of which has what the one before has.
func histogramBuckets(rng *rand.Rand, portable bool) func(bucket int) func(int) float64 {
	seed := rng.Uint64()
	return func(bucket int) func(int) float64 {
		total := 0.0
		if portable {
			total = farFromZero * float64(bucket+1)
		}
		return func(i int) float64 {
			for b := range bucket + 1 {
				total += float64(rand.New(rand.NewPCG(seed, uint64(i*10+b))).IntN(30))
			}
			return total
		}
	}
}

// Writes returns the data as remote writes in the order of time, each of all series of one
// stretch.
func Writes(data []Series, stretchMs int64) []*prompb.WriteRequest {
	fromMs, toMs := int64(math.MaxInt64), int64(math.MinInt64)
	for _, s := range data {
		fromMs, toMs = min(fromMs, s.TimesMs[0]), max(toMs, s.TimesMs[len(s.TimesMs)-1])
	}
	var writes []*prompb.WriteRequest
	for from := fromMs; from <= toMs; from += stretchMs {
		w := &prompb.WriteRequest{}
		for _, s := range data {
			series := prompb.TimeSeries{Labels: prompb.FromLabels(s.Labels, nil)}
			for i, at := range s.TimesMs {
				if at >= from && at < from+stretchMs {
					series.Samples = append(series.Samples, prompb.Sample{Timestamp: at, Value: s.Values[i]})
				}
			}
			if len(series.Samples) > 0 {
				w.Timeseries = append(w.Timeseries, series)
			}
		}
		if len(w.Timeseries) > 0 {
			writes = append(writes, w)
		}
	}
	return writes
}
