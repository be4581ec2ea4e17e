package parse

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
)

// What Prometheus makes of metrics is compared in e2e/promdiff/scripts, beside its own converter.

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

// failer is a test or a check of rapid.
type failer interface {
	Helper()
	Fatal(...any)
}

func otlpBody(t failer, resource []*commonpb.KeyValue, metrics ...*metricspb.Metric) []byte {
	t.Helper()
	body, err := proto.Marshal(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource:     &resourcepb.Resource{Attributes: resource},
		ScopeMetrics: []*metricspb.ScopeMetrics{{Metrics: metrics}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func gaugeOf(name string, points ...*metricspb.NumberDataPoint) *metricspb.Metric {
	return &metricspb.Metric{Name: name, Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: points}}}
}

func sumOf(name string, temporality metricspb.AggregationTemporality, points ...*metricspb.NumberDataPoint) *metricspb.Metric {
	return &metricspb.Metric{Name: name, Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{
		IsMonotonic: true, AggregationTemporality: temporality, DataPoints: points,
	}}}
}

func pointOf(value float64, attributes ...*commonpb.KeyValue) *metricspb.NumberDataPoint {
	return &metricspb.NumberDataPoint{
		TimeUnixNano: 1_700_000_000_123_999_999, Attributes: attributes,
		Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: value},
	}
}

// stored returns the samples of a batch as "metric{tag=value,…} time value", as the storage would have them.
func stored(t failer, b *Batch) []string {
	t.Helper()
	var keys KeyBuilder
	var all []string
	for i := range b.Lines {
		l := &b.Lines[i]
		if err := keys.Start(b, l, nil, Limits{}.WithDefaults()); err != nil {
			t.Fatal(err)
		}
		tags := make([]string, len(keys.tags))
		for j, tag := range keys.tags {
			tags[j] = string(tag.Name) + "=" + string(tag.Value)
		}
		for _, p := range b.Points[l.First : l.First+l.Count] {
			all = append(all, fmt.Sprintf("%s{%s} %d %v", keys.metric, strings.Join(tags, ","), p.TimeMs, series.Float64(p.Mantissa, p.Scale)))
		}
	}
	return all
}

func TestOTLP(t *testing.T) {
	resource := []*commonpb.KeyValue{text("service.name", "shop"), text("service.namespace", "eu"), text("service.instance.id", "7"), text("host.name", "a")}
	noValue := &metricspb.NumberDataPoint{TimeUnixNano: 1_700_000_000_000_000_000}
	body := otlpBody(t, resource,
		gaugeOf("queue.length", pointOf(1.5, text("http.method", "GET")), noValue),
		sumOf("requests", metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, pointOf(3)),
		sumOf("deltas", metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA, pointOf(4), pointOf(5)),
		sumOf("unset", 0, pointOf(6)),
		&metricspb.Metric{Name: "nothing"},
		gaugeOf("labels", pointOf(1, text("a.b", "x"), text("a_b", "y"), text("job", "mine"), text("empty", ""))))
	var b Batch
	if err := OTLP(&b, body, Limits{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"queue_length{http_method=GET,instance=7,job=eu/shop} 1700000000123 1.5",
		"requests_total{instance=7,job=eu/shop} 1700000000123 3",
		"labels{a_b=x;y,instance=7,job=eu/shop} 1700000000123 1",
		"target_info{host_name=a,instance=7,job=eu/shop} 1700000000123 1",
	}
	if got := stored(t, &b); !slices.Equal(got, want) {
		t.Errorf("stored\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	refused := []string{
		"series 2: queue_length: a data point without a value",
		"series 4: deltas: " + deltaRemedy, "series 5: deltas: " + deltaRemedy,
		"series 6: unset: aggregation_temporality is not set",
	}
	if got := messages(&b); !slices.Equal(got, refused) || b.ErrorPoints != 4 || b.Samples != 8 {
		t.Errorf("%d of %d samples refused: %q, want %q", b.ErrorPoints, b.Samples, got, refused)
	}
}

// Times are unsigned: those of the year 2262 and later are none before 1970.
func TestOTLPLateTimes(t *testing.T) {
	early, late, last := pointOf(1), pointOf(2), pointOf(3)
	early.TimeUnixNano, late.TimeUnixNano, last.TimeUnixNano = math.MaxInt64, math.MaxInt64+1, math.MaxUint64
	body := otlpBody(t, []*commonpb.KeyValue{text("service.name", "s"), text("host", "a")}, gaugeOf("g", early, late, last))
	var b Batch
	if err := OTLP(&b, body, Limits{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"g{job=s} 9223372036854 1", "g{job=s} 9223372036854 2", "g{job=s} 18446744073709 3", "target_info{host=a,job=s} 18446744073709 1",
	}
	if got := stored(t, &b); !slices.Equal(got, want) {
		t.Errorf("stored\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOTLPExponential counts observations for each bound by looking at all of them.
func TestOTLPExponential(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.Int32Range(-3, 8).Draw(t, "scale")
		base := math.Exp2(math.Exp2(-float64(scale)))
		// Within doubles, and so that bounds of both ends are passed.
		reach := int32(60 * math.Exp2(float64(scale)))
		offset := rapid.Int32Range(-max(reach, 1), max(reach, 1)).Draw(t, "offset")
		counts := rapid.SliceOfN(rapid.Uint64Range(0, 3), 0, 200).Draw(t, "counts")
		zeros := rapid.Uint64Range(0, 3).Draw(t, "zeros")
		negative := rapid.SliceOfN(rapid.Uint64Range(0, 3), 0, 3).Draw(t, "negative")
		total := zeros
		// The upper bounds of the buckets of all positive observations.
		var uppers []float64
		for i, n := range counts {
			total += n
			for range n {
				uppers = append(uppers, math.Pow(base, float64(offset)+float64(i)+1))
			}
		}
		below0 := zeros
		for _, n := range negative {
			total += n
			below0 += n
		}
		body := otlpBody(t, nil, &metricspb.Metric{Name: "d", Unit: "s", Data: &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: &metricspb.ExponentialHistogram{
			AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
			DataPoints: []*metricspb.ExponentialHistogramDataPoint{{
				TimeUnixNano: 5e9, Count: total, Scale: scale, ZeroCount: zeros,
				Positive: &metricspb.ExponentialHistogramDataPoint_Buckets{Offset: offset, BucketCounts: counts},
				Negative: &metricspb.ExponentialHistogramDataPoint_Buckets{BucketCounts: negative},
			}},
		}}})
		var b Batch
		if err := OTLP(&b, body, Limits{}); err != nil {
			t.Fatal(err)
		}
		want := []string{fmt.Sprintf("d_seconds_count{} 5000 %d", total)}
		buckets := []string{}
		for k := -13; k <= 33; k++ {
			n := below0
			for _, upper := range uppers {
				if upper <= math.Ldexp(1, k)*(1+1e-9) { // powers are not exact
					n++
				}
			}
			if n == 0 {
				buckets = buckets[:0]
			}
			buckets = append(buckets, fmt.Sprintf("d_seconds_bucket{le=%s} 5000 %d", formatBound(math.Ldexp(1, k)), n))
		}
		want = append(append(want, buckets...), fmt.Sprintf("d_seconds_bucket{le=+Inf} 5000 %d", total))
		if got := stored(t, &b); !slices.Equal(got, want) {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestOTLPBounds(t *testing.T) {
	nested := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "x"}}
	for range otlpDepthMax + 1 {
		nested = &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{nested}}}}
	}
	var many, alike []*commonpb.KeyValue
	for i := range otlpAttributesMax + 1 {
		many = append(many, text(fmt.Sprintf("k%d", i), "v"))
	}
	for i := range 200 { // their values would be joined to one of 2 MB
		alike = append(alike, text("a"+strings.Repeat(".", 1+i%7)+strings.Repeat("-", i/7), strings.Repeat("v", 10_000)))
	}
	long := &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: make([]*commonpb.AnyValue, otlpElementsMax)}}}
	for i := range long.GetArrayValue().Values {
		long.GetArrayValue().Values[i] = &commonpb.AnyValue{}
	}
	for name, attributes := range map[string][]*commonpb.KeyValue{
		"attribute \"deep\": the value is too long, or its lists": {{Key: "deep", Value: nested}},
		"attribute \"long\": the value is too long, or its lists": {{Key: "long", Value: long}},
		"more than 256 attributes":                                many,
		"labels of ":                                              alike,
		`attribute "ä": normalization`:                            {text("ä", "x")},
	} {
		var b Batch
		if err := OTLP(&b, otlpBody(t, nil, gaugeOf("g", pointOf(1, attributes...), pointOf(2))), Limits{}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := messages(&b); len(got) != 1 || !strings.HasPrefix(got[0], "series 1: "+name) || len(b.Lines) != 1 {
			t.Errorf("%d lines, errors %.300q, want %q", len(b.Lines), got, name)
		}
	}
	// A histogram whose labels come again for each of its buckets.
	counts := make([]uint64, otlpBucketsMax)
	bounds := make([]float64, otlpBucketsMax)
	var points []*metricspb.HistogramDataPoint
	for range 2 {
		points = append(points, &metricspb.HistogramDataPoint{
			BucketCounts: counts, ExplicitBounds: bounds, Attributes: []*commonpb.KeyValue{text("a", strings.Repeat("v", 15_000))},
		})
	}
	bomb := otlpBody(t, nil, &metricspb.Metric{Name: "h", Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{
		AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, DataPoints: points,
	}}})
	var b Batch
	if err := OTLP(&b, bomb, Limits{}); !errors.Is(err, ErrTooLarge) || len(b.Lines) != 0 {
		t.Errorf("%d bytes that become 500 MB: %v", len(bomb), err)
	}
	points[0].BucketCounts = make([]uint64, otlpBucketsMax+1)
	if err := OTLP(&b, otlpBody(t, nil, &metricspb.Metric{Name: "h", Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{
		AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, DataPoints: points,
	}}}), Limits{}); !errors.Is(err, ErrMalformed) {
		t.Errorf("too many buckets: %v", err)
	}
}

// FuzzOTLP: nothing ends the process, labels can always be read, and a body that the official decoder
// refuses for its structure is either refused or has only been read around the fault.
func FuzzOTLP(f *testing.F) {
	f.Add(otlpBody(f, []*commonpb.KeyValue{text("service.name", "s"), text("x", "y")}, gaugeOf("g", pointOf(1, text("k", "v")))))
	f.Add(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{0x12, 2, 0x12, 0}))
	any := func(v *commonpb.AnyValue) *commonpb.KeyValue { return &commonpb.KeyValue{Key: "k", Value: v} }
	values := []*commonpb.KeyValue{
		any(&commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: -7}}), any(&commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: 0.5}}),
		any(&commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: true}}), any(&commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: []byte{1, 2}}}),
		any(&commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{text("", "x").GetValue(), {}}}}}),
		any(&commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: []*commonpb.KeyValue{text("a", "b")}}}}),
	}
	const cumulative = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	late := pointOf(1)
	late.TimeUnixNano = math.MaxUint64
	for _, m := range []*metricspb.Metric{
		gaugeOf("late", late),
		sumOf("s", cumulative, pointOf(1, values...)),
		{Name: "h", Unit: "s", Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{AggregationTemporality: cumulative, DataPoints: []*metricspb.HistogramDataPoint{
			{TimeUnixNano: 1e18, Count: 3, Sum: proto.Float64(4), BucketCounts: []uint64{1, 0, 2}, ExplicitBounds: []float64{0.5, 2}, Min: proto.Float64(0), Max: proto.Float64(3)},
		}}}},
		{Name: "e", Data: &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: &metricspb.ExponentialHistogram{AggregationTemporality: cumulative, DataPoints: []*metricspb.ExponentialHistogramDataPoint{
			{TimeUnixNano: 1e18, Count: 6, Sum: proto.Float64(4), Scale: 2, ZeroCount: 1, ZeroThreshold: 0.01,
				Positive: &metricspb.ExponentialHistogramDataPoint_Buckets{Offset: -3, BucketCounts: []uint64{1, 0, 2}}, Negative: &metricspb.ExponentialHistogramDataPoint_Buckets{Offset: 9, BucketCounts: []uint64{2}}},
		}}}},
		{Name: "q", Data: &metricspb.Metric_Summary{Summary: &metricspb.Summary{DataPoints: []*metricspb.SummaryDataPoint{
			{TimeUnixNano: 1e18, Count: 3, Sum: 4, QuantileValues: []*metricspb.SummaryDataPoint_ValueAtQuantile{{Quantile: 0.5, Value: 1}, {Quantile: 1, Value: 2}}},
		}}}},
	} {
		f.Add(otlpBody(f, []*commonpb.KeyValue{text("service.name", "s")}, m))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var b Batch
		if err := OTLP(&b, body, Limits{}); err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) || len(b.Lines)+len(b.Points) > 0 {
				t.Fatalf("%v with %d lines", err, len(b.Lines))
			}
			return
		}
		for i := range b.Points {
			if ms := b.Points[i].TimeMs; ms < 0 || ms > math.MaxUint64/1_000_000 {
				t.Fatalf("%d ms, which nobody can have sent", ms)
			}
		}
		var message metricspb.MetricsData
		points := 0
		if err := proto.Unmarshal(body, &message); err == nil {
			for _, r := range message.ResourceMetrics {
				for _, s := range r.ScopeMetrics {
					for _, m := range s.Metrics {
						points += len(m.GetGauge().GetDataPoints()) + len(m.GetSum().GetDataPoints()) + len(m.GetSummary().GetDataPoints()) +
							len(m.GetHistogram().GetDataPoints()) + len(m.GetExponentialHistogram().GetDataPoints())
					}
				}
			}
			if (points == 0) != (b.Samples == 0) {
				t.Fatalf("%d samples of %d data points", b.Samples, points)
			}
		}
		var keys KeyBuilder
		for i := range b.Lines {
			if fault := keys.readLabels(b.Head(&b.Lines[i])); fault.detail != "" && !strings.Contains(fault.detail, "invalid metric name or labels, got") {
				t.Fatalf("labels of %q: %s", body, fault.detail)
			}
		}
	})
}

func BenchmarkOTLP(b *testing.B) {
	var points []*metricspb.NumberDataPoint
	for i := range 200 {
		points = append(points, pointOf(float64(i), text("http.method", "GET"), text("http.route", fmt.Sprintf("/r%d", i)), text("zone", "eu-1")))
	}
	body := otlpBody(b, []*commonpb.KeyValue{text("service.name", "shop"), text("service.instance.id", "7"), text("host.name", "a")}, gaugeOf("requests", points...))
	var batch Batch
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := OTLP(&batch, body, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/200, "ns/point")
}

// What one body can make of long names and texts in lists is bounded, before it is known that no
// key may be as long: bodies are compressed on their way.
func TestOTLPLongTexts(t *testing.T) {
	const bytes = 4 << 20
	listOf := func(value *commonpb.AnyValue) *commonpb.KeyValue {
		return &commonpb.KeyValue{Key: "list", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{
			ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{value}},
		}}}
	}
	pairs := &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: []*commonpb.KeyValue{text(strings.Repeat("\x01", bytes), "")}}}}
	unit := gaugeOf("m", pointOf(1))
	unit.Unit = strings.Repeat("a.", bytes/2)
	for name, metric := range map[string]*metricspb.Metric{
		"tokens":       gaugeOf(strings.Repeat("a.", bytes/2), pointOf(1)),
		"no name":      gaugeOf(strings.Repeat("\x01", bytes), pointOf(1)),
		"delta":        sumOf(strings.Repeat("a", bytes), metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA, pointOf(1)),
		"unit":         unit,
		"attribute":    gaugeOf("m", pointOf(1, text(strings.Repeat("\x01", bytes), "v"))),
		"text in list": gaugeOf("m", pointOf(1, listOf(text("", strings.Repeat("\x01", bytes)).Value))),
		"key in list":  gaugeOf("m", pointOf(1, listOf(pairs))),
	} {
		t.Run(name, func(t *testing.T) {
			body := otlpBody(t, nil, metric)
			var b Batch
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := OTLP(&b, body, Limits{})
			runtime.ReadMemStats(&after)
			if err != nil || len(b.Lines) > 0 || b.ErrorPoints != 1 || len(b.Errors) != 1 {
				t.Fatalf("%d samples, %d refused, %v", len(b.Lines), b.ErrorPoints, err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > bytes/4 || len(b.Errors[0].Detail) > ExcerptBytesMax {
				t.Errorf("%d bytes of memory, an error of %d bytes", n, len(b.Errors[0].Detail))
			}
		})
	}
}

// An error that quotes a name is short.
func TestOTLPShortErrors(t *testing.T) {
	var b Batch
	name := strings.Repeat("\x01", 10_000)
	if err := OTLP(&b, otlpBody(t, nil, gaugeOf(name, pointOf(1)), gaugeOf("m", pointOf(1, text(name, "v")))), Limits{}); err != nil {
		t.Fatal(err)
	}
	for i := range b.Errors {
		if detail := b.Errors[i].Detail; len(detail) > ExcerptBytesMax {
			t.Errorf("%d bytes: %.100s", len(detail), detail)
		}
	}
	if len(b.Errors) != 2 {
		t.Errorf("%d errors, want 2", len(b.Errors))
	}
}
