package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/tickmesh/tickmesh/api/series"
)

// exemplarList keeps exemplars as text.
type exemplarList struct {
	mu   sync.Mutex
	kept []string // guarded by mu
	err  error
}

func (l *exemplarList) WriteExemplars(_ context.Context, exemplars []series.Exemplar) (o series.ExemplarOutcomes, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return series.ExemplarOutcomes{Kept: 1}, l.err
	}
	for _, e := range exemplars {
		if e.TimeMs == 0 {
			o.OutOfOrder++
			continue
		}
		o.Kept++
		l.kept = append(l.kept, fmt.Sprint(e.Key, e.TimeMs, e.Value, e.Labels))
	}
	return o, nil
}

// remoteExemplars is a remote write of a series with a sample, and of two with exemplars.
func remoteExemplars(t *testing.T) string {
	t.Helper()
	label := func(name, value string) prompb.Label { return prompb.Label{Name: name, Value: value} }
	r := prompb.WriteRequest{Timeseries: []prompb.TimeSeries{
		{Labels: []prompb.Label{label("__name__", "up"), label("replica", "a")}, Samples: []prompb.Sample{{Value: 1, Timestamp: 1000}},
			Exemplars: []prompb.Exemplar{{Labels: []prompb.Label{label("trace_id", "x")}, Value: 2, Timestamp: 1000}, {Timestamp: 0}}},
		{Labels: []prompb.Label{label("__name__", "alone")}, Exemplars: []prompb.Exemplar{{Value: 3, Timestamp: 1}}},
		{Labels: []prompb.Label{label("job", "nameless")}, Exemplars: []prompb.Exemplar{{Value: 3, Timestamp: 1}}},
	}}
	body, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(snappy.Encode(nil, body))
}

// TestExemplars writes exemplars by each way in that has them, behind the samples.
func TestExemplars(t *testing.T) {
	const otlp = `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"lat","unit":"s","histogram":{"aggregationTemporality":2,"dataPoints":[{"timeUnixNano":"1700000000000000000","count":"1","bucketCounts":["1","0"],"explicitBounds":[1],` +
		`"exemplars":[{"timeUnixNano":"1700000000000000000","asDouble":0.5,"traceId":"5b8efff798038103d269b633813fc60c","spanId":"EEE19B7EC3C1B174"}]}]}}]}]}]}`
	for _, c := range []struct {
		name, raw, written string
		kept               []string
		counts             map[string]float64
	}{
		{"remote write", request("/api/v1/write?db=shop", remoteExemplars(t), "Content-Type: application/x-protobuf", "Content-Encoding: snappy"), "2",
			[]string{"shop/up{} 1000 2 [{trace_id x}]", "shop/alone{} 1 3 []"}, map[string]float64{"kept": 2, "out_of_order": 1, "refused": 1}},
		{"OTLP in JSON", request("/v1/metrics", otlp, "Content-Type: application/json"), "",
			[]string{"lat_seconds_bucket{le=1} 1700000000000 0.5 [{span_id eee19b7ec3c1b174} {trace_id 5b8efff798038103d269b633813fc60c}]"}, map[string]float64{"kept": 1}},
		{"OpenMetrics", request("/api/v1/import/prometheus", "a_total 1 5000 # {t=\"x\"} 2 3\nb 2 5000 # nothing\n"), "",
			[]string{"a_total{} 3000 2 [{t x}]"}, map[string]float64{"kept": 1, "refused": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := &exemplarList{}
			r := start(t, func(o *Options) { o.Exemplars, o.ReplicaLabel = list, "replica" })
			response, body := r.post(t, c.raw)
			if response.StatusCode >= 300 || response.Header.Get(headerExemplarsWritten) != c.written {
				t.Errorf("%d %q, %q exemplars", response.StatusCode, body, response.Header.Get(headerExemplarsWritten))
			}
			if !slices.Equal(list.kept, c.kept) {
				t.Errorf("%q, want %q", list.kept, c.kept)
			}
			for outcome, count := range c.counts {
				if got := r.metric(t, "tickmesh_ingest_exemplars_total", "outcome="+outcome); got != count {
					t.Errorf("%v are %s, want %v", got, outcome, count)
				}
			}
			if r.total() == 0 {
				t.Error("there are no samples")
			}
		})
	}
}

// TestExemplarsFail: samples are written, and the client is told so, when exemplars are not kept.
func TestExemplarsFail(t *testing.T) {
	list := &exemplarList{err: series.ErrUnavailable}
	r := start(t, func(o *Options) { o.Exemplars = list })
	response, _ := r.post(t, request("/api/v1/write", remoteExemplars(t), "Content-Type: application/x-protobuf", "Content-Encoding: snappy"))
	if response.StatusCode != 204 || r.total() != 1 || r.metric(t, "tickmesh_ingest_exemplars_total", "outcome=failed") != 2 || response.Header.Get(headerExemplarsWritten) != "1" {
		t.Errorf("%d, %d points, %v failed", response.StatusCode, r.total(), r.metric(t, "tickmesh_ingest_exemplars_total", "outcome=failed"))
	}
}

// TestExemplarsOfLongKeys: a short body of a series with a long key and many exemplars does not become much.
func TestExemplarsOfLongKeys(t *testing.T) {
	list := &exemplarList{}
	r := start(t, func(o *Options) { o.Exemplars = list })
	const count, keyBytes = 5000, 15 << 10
	long := prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: "m"}, {Name: "long", Value: strings.Repeat("x", keyBytes)}}}
	for i := range int64(count) {
		long.Exemplars = append(long.Exemplars, prompb.Exemplar{Timestamp: 1 + i})
	}
	body, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{long}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	response, text := r.post(t, request("/api/v1/write", string(snappy.Encode(nil, body)), "Content-Type: application/x-protobuf", "Content-Encoding: snappy"))
	refused := r.metric(t, "tickmesh_ingest_exemplars_total", "outcome=refused")
	if response.StatusCode != 204 || len(list.kept) == 0 || len(list.kept) > exemplarBytesMax/keyBytes || float64(len(list.kept))+refused != count {
		t.Errorf("%d %s: %d kept, %v refused", response.StatusCode, text, len(list.kept), refused)
	}
}

// TestExemplarsDeadline: the exemplars of a write have what is left of its time.
func TestExemplarsDeadline(t *testing.T) {
	var ofSamples, ofExemplars time.Time
	r := start(t, func(o *Options) {
		o.Exemplars = exemplarFunc(func(ctx context.Context, all []series.Exemplar) (series.ExemplarOutcomes, error) {
			ofExemplars, _ = ctx.Deadline()
			return series.ExemplarOutcomes{Kept: len(all)}, nil
		})
	})
	r.beforeWrites(func(ctx context.Context) error {
		ofSamples, _ = ctx.Deadline()
		return nil
	})
	response, _ := r.post(t, request("/api/v1/write", remoteExemplars(t), "Content-Type: application/x-protobuf", "Content-Encoding: snappy"))
	if response.StatusCode != 204 || ofSamples.IsZero() || ofExemplars.IsZero() || ofExemplars.After(ofSamples) {
		t.Errorf("%d: the samples have time until %v, the exemplars until %v", response.StatusCode, ofSamples, ofExemplars)
	}
}

type exemplarFunc func(context.Context, []series.Exemplar) (series.ExemplarOutcomes, error)

func (f exemplarFunc) WriteExemplars(ctx context.Context, all []series.Exemplar) (series.ExemplarOutcomes, error) {
	return f(ctx, all)
}

// TestExemplarsRate: exemplars count to the rate of a database, and beyond it they are left out, not the samples.
func TestExemplarsRate(t *testing.T) {
	list := &exemplarList{}
	r := start(t, func(o *Options) { o.Exemplars, o.Meter = list, slowMeter(t) })
	long := prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: "m"}}}
	for i := range int64(1000) {
		long.Exemplars = append(long.Exemplars, prompb.Exemplar{Timestamp: 1 + i})
	}
	body, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{long}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	raw := request("/api/v1/write?db=slow", string(snappy.Encode(nil, body)), "Content-Type: application/x-protobuf", "Content-Encoding: snappy")
	if response, text := r.post(t, raw); response.StatusCode != 204 || len(list.kept) != 1000 {
		t.Fatalf("%d %s: %d are kept", response.StatusCode, text, len(list.kept))
	}
	r.post(t, raw)
	if refused := r.metric(t, "tickmesh_ingest_exemplars_total", "outcome=refused"); len(list.kept) != 1000 || refused != 1000 {
		t.Errorf("%d are kept, %v refused", len(list.kept), refused)
	}
	if r.options.Meter.Open("slow").Ahead() == 0 {
		t.Error("they count to no rate")
	}
}

// TestExemplarsCountOnce counts those of an input that is parsed twice, and of a write that fails.
func TestExemplarsCountOnce(t *testing.T) {
	list := &exemplarList{}
	r := start(t, func(o *Options) { o.Exemplars = list })
	raw := request("/api/v1/write", remoteExemplars(t), "Content-Type: application/x-protobuf", "Content-Encoding: snappy")
	r.post(t, raw)
	writes := 0
	r.beforeWrites(func(context.Context) error {
		if writes++; writes == 1 {
			return series.ErrEra
		}
		return nil
	})
	if response, text := r.post(t, raw); response.StatusCode != 204 || writes != 2 {
		t.Fatalf("%d %s after %d writes", response.StatusCode, text, writes)
	}
	if refused := r.metric(t, "tickmesh_ingest_exemplars_total", "outcome=refused"); refused != 2 {
		t.Errorf("%v are refused of two requests with one each", refused)
	}
	r.beforeWrites(failing(series.ErrUnavailable, "down"))
	r.post(t, raw)
	if failed := r.metric(t, "tickmesh_ingest_exemplars_total", "outcome=failed"); failed != 3 {
		t.Errorf("%v have failed", failed)
	}
}
