package parse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
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

// TestManyExemplars: what is noted of a series' exemplars is bounded before anything of it is paid for.
func TestManyExemplars(t *testing.T) {
	message := slices.Concat([]byte{0x0a, 13, 0x0a, 8}, []byte("__name__"), []byte{0x12, 1, 'm'})
	message = append(message, bytes.Repeat([]byte{0x1a, 0}, 20*exemplarsMax)...) // each an empty Exemplar
	p := remoteParser{b: &Batch{KeepExemplars: true, Body: message}}
	if err := p.series1(Span{0, uint32(len(message))}); err != nil {
		t.Fatal(err)
	}
	if cap(p.exemplars) > 2*exemplarsMax || len(p.b.Exemplars) != exemplarsMax || p.b.SkippedExemplars != 19*exemplarsMax {
		t.Errorf("%d are noted, %d kept, %d skipped", cap(p.exemplars), len(p.b.Exemplars), p.b.SkippedExemplars)
	}
}

// TestExemplarsWithoutMemory: samples are not lost for want of memory for exemplars, which is asked for once.
func TestExemplarsWithoutMemory(t *testing.T) {
	body := []byte("a 1 # {t=\"x\"} 1\nb 1 # {t=\"y\"} 1\nc 1 # {t=\"z\"} 1\n")
	for _, after := range []int{0, 1} {
		memory := &exemplarMemory{left: after}
		b := Batch{KeepExemplars: true}
		if _, err := Exposition(&b, body, LineOptions{}); err != nil { // so that all but exemplars has its room
			t.Fatal(err)
		}
		b.Reset()
		b.Memory = memory
		if _, err := Exposition(&b, body, LineOptions{}); err != nil || len(b.Points) != 3 || len(b.Exemplars) != after || b.SkippedExemplars != 3-after || memory.refused != 1 {
			t.Errorf("%d points, %d exemplars, %d skipped, refused %d times: %v", len(b.Points), len(b.Exemplars), b.SkippedExemplars, memory.refused, err)
		}
	}
}

// exemplarMemory has room for what a batch has at the beginning, and for some exemplars.
type exemplarMemory struct {
	begun         bool
	left, refused int
}

func (m *exemplarMemory) Grow(bytes int) error {
	switch {
	case bytes > 1000 && !m.begun:
		m.begun = true
	case m.left == 0:
		m.refused++
		return errors.New("no more")
	default:
		m.left--
	}
	return nil
}

// FuzzExemplars reads bodies with and without their exemplars: nothing else may differ, and what is kept is
// allowed and of a series that can be named.
func FuzzExemplars(f *testing.F) {
	label := []prompb.Label{{Name: model.MetricNameLabel, Value: "m"}}
	one, err1 := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{{Labels: label, Exemplars: []prompb.Exemplar{{Labels: label, Value: 2, Timestamp: 3}}}}}).Marshal()
	two, err2 := (&writev2.Request{Symbols: []string{"", model.MetricNameLabel, "m"}, Timeseries: []writev2.TimeSeries{
		{LabelsRefs: []uint32{1, 2}, Samples: []writev2.Sample{{Value: 1}}, Exemplars: []writev2.Exemplar{{LabelsRefs: []uint32{1, 2}, Value: 1, Timestamp: 5}}},
	}}).Marshal()
	if err := errors.Join(err1, err2); err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(0), one)
	f.Add(uint8(1), two)
	f.Add(uint8(2), []byte("m{a=\"b\"} 1 # {t=\"x\",u=\"\\n\"} 2 3.5\nn 1 # {} 1\no 1 # x\n"))
	// A sum, a histogram and an exponential one, each with an exemplar: see otlpExemplar.
	exemplar := slices.Concat([]byte{0x11}, make([]byte, 8), []byte{0x19}, make([]byte, 8), []byte{0x2a, 1, 7, 0x3a, 7, 0x0a, 1, 'a', 0x12, 2, 0x0a, 0})
	field := func(number byte, of ...[]byte) []byte {
		message := slices.Concat(of...)
		return append([]byte{number<<3 | 2, byte(len(message))}, message...)
	}
	for number, point := range map[byte][]byte{
		7:  slices.Concat([]byte{0x21}, make([]byte, 8), field(5, exemplar)),
		9:  slices.Concat(field(6, make([]byte, 16)), field(7, make([]byte, 8)), field(8, exemplar)),
		10: slices.Concat(field(11, exemplar), field(11, exemplar, []byte{0x3a, 1, 0x0f}), []byte{0x58, 1}), // and two that are malformed
	} {
		f.Add(uint8(3), field(1, field(2, field(2, field(1, []byte("m")), field(number, field(1, point), []byte{0x10, 2})))))
	}
	f.Fuzz(func(t *testing.T, format uint8, body []byte) {
		read := func(b *Batch) (err error) {
			switch format % 4 {
			case 0:
				return RemoteWrite(b, body, RemoteWrite1, Limits{})
			case 1:
				return RemoteWrite(b, body, RemoteWrite2, Limits{})
			case 2:
				_, err = Exposition(b, body, LineOptions{})
				return err
			default:
				return OTLP(b, body, Limits{})
			}
		}
		with, without := Batch{KeepExemplars: true}, Batch{}
		err, want := read(&with), read(&without)
		if (err == nil) != (want == nil) || !reflect.DeepEqual(with.Lines, without.Lines) || !reflect.DeepEqual(with.Points, without.Points) ||
			!reflect.DeepEqual(with.Errors, without.Errors) || with.ErrorsTotal != without.ErrorsTotal || with.Samples != without.Samples {
			t.Fatalf("%v, without exemplars %v: %+v, %+v", err, want, with, without)
		}
		if len(with.Exemplars)+with.SkippedExemplars != without.SkippedExemplars || len(without.Exemplars) > 0 {
			t.Fatalf("%d kept and %d skipped of %d", len(with.Exemplars), with.SkippedExemplars, without.SkippedExemplars)
		}
		var keys KeyBuilder
		for i := range with.Exemplars {
			x := &with.Exemplars[i]
			e := series.Exemplar{Labels: x.Labels}
			if err := e.Check(); err != nil || !Reachable(x.TimeMs) {
				t.Fatalf("%+v: %v", x, err)
			}
			if err := keys.Start(&with, &x.Series, nil, Limits{}); err == nil {
				_, _ = keys.Key(nil, false)
			}
		}
	})
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
