package parse

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/tickmesh/tickmesh/api/series"
)

// exemplarTexts returns the exemplars of a batch, each with the key of its series.
func exemplarTexts(t *testing.T, b *Batch) (texts []string) {
	t.Helper()
	var keys KeyBuilder
	for i := range b.Exemplars {
		e := &b.Exemplars[i]
		if err := keys.Start(b, &e.Series, nil, Limits{}); err != nil {
			t.Fatal(err)
		}
		key, err := keys.Key(nil, false)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, fmt.Sprint(key, e.TimeMs, e.Value, e.Labels))
	}
	return texts
}

// expectedExemplar is the text for one that Prometheus has read.
func expectedExemplar(of labels.Labels, e exemplar.Exemplar) string {
	var tags []series.Tag
	of.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel {
			tags = append(tags, series.Tag{Name: []byte(l.Name), Value: []byte(l.Value)})
		}
	})
	var own []series.ExemplarLabel
	e.Labels.Range(func(l labels.Label) { own = append(own, series.ExemplarLabel{Name: l.Name, Value: l.Value}) })
	return fmt.Sprint(series.AppendKey(nil, nil, []byte(of.Get(model.MetricNameLabel)), tags), e.Ts, e.Value, own)
}

// TestRemoteExemplars compares with Prometheus' own messages, of both versions, and with series that have exemplars alone.
func TestRemoteExemplars(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 5))
	for range 300 {
		var one prompb.WriteRequest
		symbols := writev2.NewSymbolTable()
		two := &writev2.Request{}
		var want []string
		for i := range 1 + random.IntN(4) {
			of := labels.FromStrings(model.MetricNameLabel, "m", "i", fmt.Sprint(i))
			s1, s2 := prompb.TimeSeries{}, writev2.TimeSeries{LabelsRefs: symbols.SymbolizeLabels(of, nil)}
			of.Range(func(l labels.Label) { s1.Labels = append(s1.Labels, prompb.Label{Name: l.Name, Value: l.Value}) })
			if random.IntN(2) == 0 {
				s1.Samples = []prompb.Sample{{Value: 1, Timestamp: 5}}
				s2.Samples = []writev2.Sample{{Value: 1, Timestamp: 5}}
			}
			for n := range random.IntN(3) {
				e := exemplar.Exemplar{Ts: int64(random.IntN(1000)), Value: random.NormFloat64(), Labels: labels.FromStrings("trace_id", fmt.Sprint(n), "a", "ü")}
				if n == 1 {
					e.Labels = labels.EmptyLabels()
				}
				var list []prompb.Label
				e.Labels.Range(func(l labels.Label) { list = append(list, prompb.Label{Name: l.Name, Value: l.Value}) })
				slices.Reverse(list) // order does not matter
				s1.Exemplars = append(s1.Exemplars, prompb.Exemplar{Labels: list, Value: e.Value, Timestamp: e.Ts})
				s2.Exemplars = append(s2.Exemplars, writev2.Exemplar{LabelsRefs: symbols.SymbolizeLabels(e.Labels, nil), Value: e.Value, Timestamp: e.Ts})
				want = append(want, expectedExemplar(of, e))
			}
			one.Timeseries = append(one.Timeseries, s1)
			if len(s2.Samples)+len(s2.Exemplars) > 0 { // else it is refused
				two.Timeseries = append(two.Timeseries, s2)
			}
		}
		two.Symbols = symbols.Symbols()
		body1, err1 := one.Marshal()
		body2, err2 := two.Marshal()
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		for version, body := range map[RemoteWriteVersion][]byte{RemoteWrite1: body1, RemoteWrite2: body2} {
			b := Batch{KeepExemplars: true}
			if err := RemoteWrite(&b, body, version, Limits{}); err != nil {
				t.Fatal(err)
			}
			if got := exemplarTexts(t, &b); !slices.Equal(got, want) || b.SkippedExemplars != 0 || b.ErrorsTotal != 0 {
				t.Fatalf("version %d: %q, want %q; %d skipped, %v", version, got, want, b.SkippedExemplars, b.Errors)
			}
			b.KeepExemplars = false
			if err := RemoteWrite(&b, body, version, Limits{}); err != nil || len(b.Exemplars) != 0 || b.SkippedExemplars != len(want) {
				t.Fatalf("version %d: %d are kept, %d skipped, %v", version, len(b.Exemplars), b.SkippedExemplars, err)
			}
		}
	}
}

// TestExemplarsSkipped: what cannot be kept costs neither the samples nor the other exemplars.
func TestExemplarsSkipped(t *testing.T) {
	label := func(name, value string) []prompb.Label { return []prompb.Label{{Name: name, Value: value}} }
	good := prompb.Exemplar{Labels: label("a", "b"), Timestamp: 5}
	r := prompb.WriteRequest{Timeseries: []prompb.TimeSeries{{
		Labels: label(model.MetricNameLabel, "m"), Samples: []prompb.Sample{{Value: 1}},
		Exemplars: []prompb.Exemplar{
			good, {Labels: label("a", strings.Repeat("x", series.ExemplarRunesMax))}, {Labels: label("a", strings.Repeat("ü", 4*series.ExemplarRunesMax))},
			{Labels: label("", "x")}, {Labels: append(label("a", "x"), label("a", "y")...)}, {Labels: label("a", "\xff")}, {Timestamp: -1 << 63},
		},
	}}}
	body, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	b := Batch{KeepExemplars: true}
	if err := RemoteWrite(&b, body, RemoteWrite1, Limits{}); err != nil || len(b.Exemplars) != 1 || b.SkippedExemplars != 6 || len(b.Points) != 1 || b.ErrorsTotal != 0 {
		t.Fatalf("%d exemplars, %d skipped, %d points, %v, %v", len(b.Exemplars), b.SkippedExemplars, len(b.Points), b.Errors, err)
	}
	r.Timeseries[0].Exemplars = slices.Repeat([]prompb.Exemplar{good}, exemplarsMax+5)
	if body, err = r.Marshal(); err != nil {
		t.Fatal(err)
	}
	if err := RemoteWrite(&b, body, RemoteWrite1, Limits{}); err != nil || len(b.Exemplars) != exemplarsMax || b.SkippedExemplars != 5 {
		t.Fatalf("%d exemplars, %d skipped, %v", len(b.Exemplars), b.SkippedExemplars, err)
	}
	memory := &countedMemory{}
	b.Memory = memory
	if err := RemoteWrite(&b, body, RemoteWrite1, Limits{}); err != nil || memory.bytes < exemplarsMax*100 {
		t.Fatalf("%d bytes are paid, %v", memory.bytes, err)
	}
}

// countedMemory counts what is asked for.
type countedMemory struct{ bytes int }

func (m *countedMemory) Grow(bytes int) error {
	m.bytes += bytes
	return nil
}

// TestExpositionExemplars compares with Prometheus' parser of OpenMetrics.
func TestExpositionExemplars(t *testing.T) {
	text := `foo_total{a="b"} 17.0 1520879607.789 # {id="counter-test"} 5
foo_total{a="c"} 17.0 1520879607.789 # {id="a,} # c",trace="x"} 5.5 1520879608.25
foo_total{a="d"} 1 1520879607 # {} -Inf
foo_total{a="e#f"} 1 1520879607
bar_bucket{le="+Inf"} 17 1520879607.789 # {id="histogram # test"} 1e-3 -1
`
	p := textparse.NewOpenMetricsParser([]byte(text+"# EOF\n"), labels.NewSymbolTable(), textparse.WithOMParserSTSeriesSkipped())
	var want []string
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var of labels.Labels
		p.Labels(&of)
		_, ts, _ := p.Series()
		var e exemplar.Exemplar
		if p.Exemplar(&e) {
			if !e.HasTs {
				e.Ts = *ts
			}
			want = append(want, expectedExemplar(of, e))
		}
	}
	b := Batch{KeepExemplars: true}
	if _, err := Exposition(&b, []byte(text), LineOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := exemplarTexts(t, &b); !slices.Equal(got, want) || len(want) != 4 || len(b.Points) != 5 {
		t.Fatalf("%q, want %q", got, want)
	}
	// Prometheus' parser leaves escapes as they are here, though the format has them.
	if _, err := Exposition(&b, []byte(`m 1 # {a="\\\"\n"} 1`+"\n"), LineOptions{}); err != nil || len(b.Exemplars) != 1 || b.Exemplars[0].Labels[0].Value != "\\\"\n" {
		t.Fatalf("%+v, %v", b.Exemplars, err)
	}
	for _, bad := range []string{`x`, `{`, `{a="b"`, `{a="b"}`, `{a=b} 1`, `{a="b"} x`, `{a="b"} 1 y`, `{a="b"} 1 2 3`, `{="b"} 1`, ``} {
		if _, err := Exposition(&b, []byte("m 1 # "+bad+"\nn 2\n"), LineOptions{}); err != nil || len(b.Points) != 2 || len(b.Exemplars) != 0 || b.SkippedExemplars != 1 || b.ErrorsTotal != 0 {
			t.Errorf("%q: %d points, %d exemplars, %d skipped, %v, %v", bad, len(b.Points), len(b.Exemplars), b.SkippedExemplars, b.Errors, err)
		}
	}
}
