package scripts

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote/otlptranslator/prometheusremotewrite"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// samples are values by "series time".
type samples map[string]float64

// collected is a storage.AppenderV2 that keeps what it is given.
type collected struct {
	storage.AppenderV2
	samples  samples
	metadata map[string]string
	// exemplars are those of all series, as text.
	exemplars []string
}

func (c *collected) Append(_ storage.SeriesRef, ls labels.Labels, _, t int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram, opts storage.AOptions) (storage.SeriesRef, error) {
	if h != nil || fh != nil {
		return 0, fmt.Errorf("a native histogram of %s", ls)
	}
	for _, e := range opts.Exemplars {
		c.exemplars = append(c.exemplars, exemplarText(ls, e))
	}
	c.samples[ls.String()+" "+strconv.FormatInt(t, 10)] = v
	c.metadata[opts.MetricFamilyName] = fmt.Sprintf("%s %q %q", opts.Metadata.Type, opts.Metadata.Help, opts.Metadata.Unit)
	return 0, nil
}

// exemplarText tells all of an exemplar. A label without a value is as one that is not there.
func exemplarText(of labels.Labels, e exemplar.Exemplar) string {
	return fmt.Sprintf("%s %d %v %s", of, e.Ts, e.Value, labels.NewBuilder(e.Labels).Labels().WithoutEmpty())
}

// exemplarsOf returns those of a batch.
func exemplarsOf(t *testing.T, b *parse.Batch) (texts []string) {
	t.Helper()
	for i := range b.Exemplars {
		x := &b.Exemplars[i]
		builder := labels.NewScratchBuilder(len(x.Labels))
		for _, l := range x.Labels {
			builder.Add(l.Name, l.Value)
		}
		texts = append(texts, exemplarText(labelsOf(t, b, &x.Series), exemplar.Exemplar{Ts: x.TimeMs, Value: x.Value, Labels: builder.Labels()}))
	}
	return texts
}

// TestOTLP: random metrics become what Prometheus' own converter makes of them.
func TestOTLP(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	compared := 0
	defer func() {
		if compared == 0 {
			t.Error("there were no exemplars")
		}
	}()
	for round := range 2_000 {
		metrics := randomMetrics(rng)
		want := &collected{samples: samples{}, metadata: map[string]string{}}
		// Its errors are of metrics that ours refuses too, which the comparison shows.
		_, _ = prometheusremotewrite.NewPrometheusConverter(want).FromMetrics(context.Background(), metrics,
			prometheusremotewrite.Settings{AddMetricSuffixes: true})
		body, err := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
		if err != nil {
			t.Fatal(err)
		}
		b := parse.Batch{KeepExemplars: true}
		if err := parse.OTLP(&b, body, parse.Limits{}); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		got := samplesOf(t, &b)
		maps.DeleteFunc(got, exponential)
		untime(got)
		untime(want.samples)
		for _, s := range slices.Sorted(maps.Keys(want.samples)) {
			v, ok := got[s]
			if !ok && b.ErrorsTotal > 0 && strings.Contains(s, `"target_info"`) {
				continue // Prometheus has it of a resource without a sample, too
			}
			if !ok || math.Float64bits(v) != math.Float64bits(want.samples[s]) {
				t.Errorf("seed %d, round %d: %s is %v (%v), Prometheus has %v", seed, round, s, v, ok, want.samples[s])
			}
		}
		for _, s := range slices.Sorted(maps.Keys(got)) {
			if _, ok := want.samples[s]; !ok {
				t.Errorf("seed %d, round %d: %s, which Prometheus has not", seed, round, s)
			}
		}
		traces := slices.DeleteFunc(exemplarsOf(t, &b), func(s string) bool { return exponential(s, 0) })
		slices.Sort(traces)
		slices.Sort(want.exemplars)
		if !slices.Equal(traces, want.exemplars) {
			t.Errorf("seed %d, round %d: exemplars %q, Prometheus has %q", seed, round, traces, want.exemplars)
		}
		compared += len(traces)
		said := map[string][]string{} // a body may say several things of one metric
		for i := range b.Metadata {
			name, help, unit := b.MetadataText(&b.Metadata[i])
			said[string(name)] = append(said[string(name)], fmt.Sprintf("%s %q %q", b.Metadata[i].Type, help, unit))
		}
		for name, of := range want.metadata {
			if !slices.Contains(said[name], of) && name != "target_info" {
				t.Errorf("seed %d, round %d: metadata of %s is %s, Prometheus has %s", seed, round, name, said[name], of)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// exponential reports whether a sample is of an exponential histogram, which Prometheus has as a native one.
func exponential(s string, _ float64) bool { return strings.Contains(s, `__name__="exp`) }

// untime takes the times from samples of target_info: Prometheus has one each 150 s.
func untime(all samples) {
	for s, v := range maps.Clone(all) {
		if strings.Contains(s, `"target_info"`) {
			delete(all, s)
			all[s[:strings.LastIndexByte(s, ' ')]] = v
		}
	}
}

func samplesOf(t *testing.T, b *parse.Batch) samples {
	t.Helper()
	all := samples{}
	for i := range b.Lines {
		l := &b.Lines[i]
		of := labelsOf(t, b, l)
		for _, p := range b.Points[l.First : l.First+l.Count] {
			n := series.Number{Mantissa: p.Mantissa, Scale: p.Scale}
			all[of.String()+" "+strconv.FormatInt(p.TimeMs, 10)] = n.Float64()
		}
	}
	return all
}

func labelsOf(t *testing.T, b *parse.Batch, l *parse.Line) labels.Labels {
	t.Helper()
	var message prompb.TimeSeries // labels are its field 1, as in a remote write
	if err := message.Unmarshal(b.Head(l)); err != nil {
		t.Fatal(err)
	}
	builder := labels.NewScratchBuilder(len(message.Labels))
	for _, label := range message.Labels {
		builder.Add(label.Name, label.Value)
	}
	builder.Sort()
	return builder.Labels()
}

var (
	otlpNames = []string{"requests", "http.server.duration", "a-b", "9lives", "cpu time", "total", "_x", "ratio", "ümlaut", ""}
	otlpUnits = []string{"", "s", "ms", "By", "1", "{requests}", "By/s", "%"}
	otlpKeys  = []string{"http.method", "http-method", "http_method", "code", "le", "quantile", "job", "instance", "__name__", "9x", "a", "_b", "äb", "__meta__"}
)

func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

func randomMetrics(rng *rand.Rand) pmetric.Metrics {
	metrics := pmetric.NewMetrics()
	for r := range 1 + rng.IntN(2) {
		rm := metrics.ResourceMetrics().AppendEmpty()
		resource := rm.Resource().Attributes()
		for _, key := range []string{"service.name", "service.namespace", "service.instance.id"} {
			if rng.IntN(3) > 0 {
				resource.PutStr(key, key+strconv.Itoa(r))
			}
		}
		randomAttributes(rng, resource)
		for range 1 + rng.IntN(2) {
			sm := rm.ScopeMetrics().AppendEmpty()
			sm.Scope().SetName("scope")
			for range rng.IntN(4) {
				randomMetric(rng, sm.Metrics().AppendEmpty())
			}
		}
	}
	return metrics
}

func randomMetric(rng *rand.Rand, m pmetric.Metric) {
	m.SetName(pick(rng, otlpNames))
	m.SetUnit(pick(rng, otlpUnits))
	m.SetDescription("about it")
	temporality := pmetric.AggregationTemporalityCumulative
	if rng.IntN(8) == 0 {
		temporality = pmetric.AggregationTemporality(rng.IntN(2)) // unspecified or delta
	}
	flags := func() pmetric.DataPointFlags {
		return pmetric.DefaultDataPointFlags.WithNoRecordedValue(rng.IntN(8) == 0)
	}
	at := func() pcommon.Timestamp { return pcommon.Timestamp(1_700_000_000_123_456_789 + rng.Int64N(1e12)) }
	numbers := func(points pmetric.NumberDataPointSlice) {
		for range 1 + rng.IntN(3) {
			p := points.AppendEmpty()
			p.SetTimestamp(at())
			p.SetFlags(flags())
			if rng.IntN(2) == 0 {
				p.SetIntValue(rng.Int64() - math.MaxInt64/2)
			} else {
				p.SetDoubleValue(pick(rng, []float64{0, math.Copysign(0, -1), 1.5, math.NaN(), math.Inf(-1), rng.NormFloat64()}))
			}
			randomAttributes(rng, p.Attributes())
			if rng.IntN(4) == 0 {
				randomExemplars(rng, p.Exemplars())
			}
		}
	}
	switch rng.IntN(5) {
	case 0:
		numbers(m.SetEmptyGauge().DataPoints())
	case 1:
		sum := m.SetEmptySum()
		sum.SetAggregationTemporality(temporality)
		sum.SetIsMonotonic(rng.IntN(2) == 0)
		numbers(sum.DataPoints())
	case 2:
		h := m.SetEmptyHistogram()
		h.SetAggregationTemporality(temporality)
		for range 1 + rng.IntN(3) {
			p := h.DataPoints().AppendEmpty()
			p.SetTimestamp(at())
			p.SetFlags(flags())
			p.SetCount(rng.Uint64N(1000))
			if rng.IntN(2) == 0 {
				p.SetSum(rng.NormFloat64())
			}
			bounds := rng.IntN(5)
			for i := range bounds {
				p.ExplicitBounds().Append(float64(i) / 4)
			}
			for range bounds + rng.IntN(3) - 1 {
				p.BucketCounts().Append(rng.Uint64N(50))
			}
			randomExemplars(rng, p.Exemplars())
			randomAttributes(rng, p.Attributes())
		}
	case 3:
		m.SetName("exp" + m.Name())
		h := m.SetEmptyExponentialHistogram()
		h.SetAggregationTemporality(temporality)
		p := h.DataPoints().AppendEmpty()
		p.SetTimestamp(at())
		p.Positive().SetOffset(int32(rng.IntN(100) - 50))
		for range rng.IntN(20) {
			p.Positive().BucketCounts().Append(rng.Uint64N(3))
		}
	case 4:
		s := m.SetEmptySummary()
		for range 1 + rng.IntN(3) {
			p := s.DataPoints().AppendEmpty()
			p.SetTimestamp(at())
			p.SetFlags(flags())
			p.SetCount(rng.Uint64N(1000))
			p.SetSum(rng.NormFloat64())
			for i := range rng.IntN(3) {
				q := p.QuantileValues().AppendEmpty()
				q.SetQuantile(float64(i) / 8)
				q.SetValue(rng.NormFloat64())
			}
			randomAttributes(rng, p.Attributes())
		}
	}
}

// randomExemplars adds some whose values grow, as Prometheus wants those of histograms.
func randomExemplars(rng *rand.Rand, list pmetric.ExemplarSlice) {
	for i := range rng.IntN(4) {
		e := list.AppendEmpty()
		e.SetTimestamp(pcommon.Timestamp(1_700_000_000_123_456_789 + rng.Int64N(1e12)))
		if rng.IntN(2) == 0 {
			e.SetIntValue(int64(i))
		} else {
			e.SetDoubleValue(float64(i) + rng.Float64()/2)
		}
		if rng.IntN(3) > 0 {
			e.SetTraceID(pcommon.TraceID{1, byte(rng.IntN(256))})
		}
		if rng.IntN(3) > 0 {
			e.SetSpanID(pcommon.SpanID{byte(rng.IntN(256)), 2})
		}
		for n := range rng.IntN(3) {
			e.FilteredAttributes().PutStr("key."+strconv.Itoa(n), strings.Repeat("ü", rng.IntN(60)))
		}
	}
}

func randomAttributes(rng *rand.Rand, m pcommon.Map) {
	for range rng.IntN(4) {
		key := pick(rng, otlpKeys)
		if _, ok := m.Get(key); ok {
			continue
		}
		switch v := m.PutEmpty(key); rng.IntN(8) {
		case 0:
			v.SetInt(rng.Int64() - math.MaxInt64/2)
		case 1:
			v.SetDouble(pick(rng, []float64{0, 1.5, 1e-9, 1.25e-7, 3e21, 1e300, -2, math.NaN(), math.Inf(1)}))
		case 2:
			v.SetBool(rng.IntN(2) == 0)
		case 3:
			v.SetEmptyBytes().FromRaw([]byte{1, 2, 250})
		case 4:
			list := v.SetEmptySlice()
			list.AppendEmpty().SetStr("<x>")
			list.AppendEmpty().SetDouble(2.5)
			list.AppendEmpty().SetEmptyMap().PutStr("k", "é")
		case 5:
			v.SetStr("")
		default:
			v.SetStr(pick(rng, []string{"GET", "a b", "ü", `"`}))
		}
	}
}
