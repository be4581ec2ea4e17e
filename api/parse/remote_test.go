package parse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
)

// refSeries turns the labels of one series into points the slow way.
func refSeries(r *result, number int, names, values []string, samples []prompb.Sample) {
	tags := map[string]string{}
	for i := range names {
		_, twice := tags[names[i]]
		if names[i] == "" || !utf8.ValidString(names[i]) || !utf8.ValidString(values[i]) || twice && values[i] != "" {
			r.errors = append(r.errors, number)
			return
		}
		if values[i] != "" {
			tags[names[i]] = values[i]
		}
	}
	metric := tags["__name__"]
	delete(tags, "__name__")
	if metric == "" {
		r.errors = append(r.errors, number)
		return
	}
	for _, s := range samples {
		r.points = append(r.points, resultPoint{number, keyOf("db", metric, tags), s.Timestamp, math.Float64bits(s.Value)})
	}
}

// refReachable takes off the samples of times that no query reaches: all of a series' are one error.
func refReachable(r *result, number int, samples []prompb.Sample) []prompb.Sample {
	reachable := slices.DeleteFunc(samples, func(s prompb.Sample) bool { return s.Timestamp < scan.TimeMsMin || s.Timestamp > scan.TimeMsMax })
	if len(reachable) < len(samples) {
		r.errors = append(r.errors, number)
	}
	return reachable
}

// reference1 decodes with Prometheus' own message.
func reference1(body []byte) (r result, histograms int, ok bool) {
	var request prompb.WriteRequest
	if request.Unmarshal(body) != nil {
		return r, 0, false
	}
	for i, ts := range request.Timeseries {
		var names, values []string
		for _, l := range ts.Labels {
			names, values = append(names, l.Name), append(values, l.Value)
		}
		if len(ts.Histograms) > 0 {
			histograms += len(ts.Histograms)
			r.errors = append(r.errors, i+1)
		}
		if samples := refReachable(&r, i+1, ts.Samples); len(samples) > 0 {
			refSeries(&r, i+1, names, values, samples)
		}
	}
	return r, histograms, true
}

func reference2(body []byte) (r result, histograms int, ok bool) {
	var request writev2.Request
	if request.Unmarshal(body) != nil {
		return r, 0, false
	}
	for i, ts := range request.Timeseries {
		if len(ts.Samples) == 0 && len(ts.Histograms) == 0 || len(ts.LabelsRefs)%2 != 0 {
			r.errors = append(r.errors, i+1)
			continue
		}
		var text []string
		for _, ref := range ts.LabelsRefs {
			if int(ref) >= len(request.Symbols) {
				r.errors = append(r.errors, i+1)
				break
			}
			text = append(text, request.Symbols[ref])
		}
		if len(text) != len(ts.LabelsRefs) {
			continue
		}
		if len(ts.Histograms) > 0 {
			histograms += len(ts.Histograms)
			r.errors = append(r.errors, i+1)
		}
		var names, values []string
		for j := 0; j < len(text); j += 2 {
			names, values = append(names, text[j]), append(values, text[j+1])
		}
		var samples []prompb.Sample
		for _, s := range ts.Samples {
			samples = append(samples, prompb.Sample{Value: s.Value, Timestamp: s.Timestamp})
		}
		if samples = refReachable(&r, i+1, samples); len(samples) > 0 {
			refSeries(&r, i+1, names, values, samples)
		}
	}
	return r, histograms, true
}

// message describes which fields of a message are messages that the parser reads.
type message map[protowire.Number]message

func messageOf(version RemoteWriteVersion) message {
	if version == RemoteWrite2 {
		return message{5: {2: {}}}
	}
	return message{1: {2: {}}}
}

// strict reports whether a message has the wire format that protobuf's own library
// takes. Prometheus' generated code also takes numbers of fields and varints that
// do not fit, and groups that end as others.
func strict(body []byte, m message) bool {
	for len(body) > 0 {
		number, kind, tagBytes := protowire.ConsumeTag(body)
		if tagBytes < 0 {
			return false
		}
		n := protowire.ConsumeFieldValue(number, kind, body[tagBytes:])
		if n < 0 {
			return false
		}
		if inner, known := m[number]; known && kind == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(body[tagBytes:])
			if !strict(content, inner) {
				return false
			}
		}
		body = body[tagBytes+n:]
	}
	return true
}

func checkRemote(t interface{ Fatalf(string, ...any) }, body []byte, version RemoteWriteVersion) {
	want, histograms, ok := reference1(body)
	if version == RemoteWrite2 {
		want, histograms, ok = reference2(body)
	}
	var b Batch
	err := RemoteWrite(&b, exact(string(body)), version, Limits{})
	if err != nil {
		if ok && strict(body, messageOf(version)) || !errors.Is(err, ErrMalformed) || len(b.Lines)+len(b.Points) > 0 {
			t.Fatalf("version %d, %x: %v, want ok %v", version, body, err, ok)
		}
		return
	}
	if !ok {
		return // malformed inside a label, exemplar, histogram or metadata: refused later, or only counted
	}
	got := resultOf(&b, "db", Limits{})
	if d := difference(got, want); d != "" {
		t.Fatalf("version %d, %x: %s (%v)", version, body, d, messages(&b))
	}
	if b.SkippedHistograms != histograms {
		t.Fatalf("version %d, %x: %d histograms, want %d", version, body, b.SkippedHistograms, histograms)
	}
}

var staleBits = uint64(0x7ff0000000000002) // Prometheus' stale marker

func request1() *prompb.WriteRequest {
	return &prompb.WriteRequest{
		Timeseries: []prompb.TimeSeries{
			{
				Labels:  []prompb.Label{{Name: "__name__", Value: "up"}, {Name: "instance", Value: "localhost:9090"}, {Name: "job", Value: "prometheus"}},
				Samples: []prompb.Sample{{Value: 1, Timestamp: 1700000000000}, {Value: math.Float64frombits(staleBits), Timestamp: 1700000015000}},
			},
			{
				Labels:     []prompb.Label{{Name: "z", Value: "1"}, {Name: "__name__", Value: "unsorted"}, {Name: "a", Value: ""}},
				Samples:    []prompb.Sample{{Value: math.Copysign(0, -1), Timestamp: -5}, {Value: math.Inf(1)}, {Value: 0.1}},
				Exemplars:  []prompb.Exemplar{{Labels: []prompb.Label{{Name: "trace_id", Value: "x"}}, Value: 1}},
				Histograms: []prompb.Histogram{{Sum: 3}},
			},
			{Labels: []prompb.Label{{Name: "a", Value: "b"}}, Samples: []prompb.Sample{{Value: 1}}},
			{Labels: []prompb.Label{{Name: "__name__", Value: "m"}, {Name: "a", Value: "b"}, {Name: "a", Value: "b"}}, Samples: []prompb.Sample{{Value: 1}}},
		},
		Metadata: []prompb.MetricMetadata{{MetricFamilyName: "up"}},
	}
}

func request2() *writev2.Request {
	return &writev2.Request{
		Symbols: []string{"", "__name__", "up", "job", "prometheus", "\xff", strings.Repeat("long", 100)},
		Timeseries: []writev2.TimeSeries{
			{LabelsRefs: []uint32{1, 2, 3, 4}, Samples: []writev2.Sample{{Value: 1, Timestamp: 17, StartTimestamp: 3}, {Value: math.Float64frombits(staleBits), Timestamp: 18}}, Metadata: writev2.Metadata{HelpRef: 2}},
			{LabelsRefs: []uint32{3, 6, 1, 2}, Samples: []writev2.Sample{{Value: 2.5}}, Histograms: []writev2.Histogram{{Sum: 2}}},
			{LabelsRefs: []uint32{1, 2, 3}, Samples: []writev2.Sample{{Value: 1}}},
			{LabelsRefs: []uint32{1, 99}, Samples: []writev2.Sample{{Value: 1}}},
			{LabelsRefs: []uint32{1, 5}, Samples: []writev2.Sample{{Value: 1}}},
			{LabelsRefs: []uint32{1, 2}},
		},
	}
}

func seeds(f interface{ Fatal(...any) }) [][]byte {
	one, err1 := request1().Marshal()
	two, err2 := request2().Marshal()
	if err1 != nil || err2 != nil {
		f.Fatal(err1, err2)
	}
	return [][]byte{one, two, one[:len(one)-3], {0x0b, 0x0c}, {0x2b, 0x08, 0x01, 0x2c}, {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}, {0}, {0x80}, nil}
}

func FuzzRemoteWrite(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		checkRemote(t, body, RemoteWrite1)
		checkRemote(t, body, RemoteWrite2)
	})
}

func TestRemoteWriteCounts(t *testing.T) {
	all := seeds(t)
	var b Batch
	if err := RemoteWrite(&b, all[0], RemoteWrite1, Limits{}); err != nil {
		t.Fatal(err)
	}
	if b.Samples != 7 || len(b.Metadata) != 1 || b.SkippedExemplars != 1 || b.SkippedHistograms != 1 {
		t.Errorf("1.0: %d samples, %d metadata, %d exemplars, %d histograms", b.Samples, len(b.Metadata), b.SkippedExemplars, b.SkippedHistograms)
	}
	if len(b.Errors) != 1 || b.Errors[0].Error() != "series 2: native histograms are not stored: 1 refused; "+histogramRemedy || b.Errors[0].Kind != KindUnsupported {
		t.Errorf("%q", messages(&b))
	}
	if got := uint64(b.Points[1].Mantissa); got != staleBits {
		t.Errorf("stale marker %x", got)
	}
	if err := RemoteWrite(&b, all[1], RemoteWrite2, Limits{}); err != nil {
		t.Fatal(err)
	}
	if b.Samples != 6 || b.SkippedHistograms != 1 || b.ErrorsTotal != 4 {
		t.Errorf("2.0: %d samples, %d histograms, errors %q", b.Samples, b.SkippedHistograms, messages(&b))
	}
}

// Samples of times that no query reaches are refused with their place, and the rest of their series is kept.
func TestRemoteWriteUnreachableTimes(t *testing.T) {
	times := []int64{scan.TimeMsMax, scan.TimeMsMax + 1, math.MinInt64, scan.TimeMsMin}
	beyond := []int64{scan.TimeMsMin - 1}
	one, two := &prompb.WriteRequest{}, &writev2.Request{Symbols: []string{"", "__name__", "m", "n"}}
	for i, times := range [][]int64{times, beyond} {
		a := prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: two.Symbols[2+i]}}}
		b := writev2.TimeSeries{LabelsRefs: []uint32{1, uint32(2 + i)}}
		for _, ms := range times {
			a.Samples = append(a.Samples, prompb.Sample{Value: 1, Timestamp: ms})
			b.Samples = append(b.Samples, writev2.Sample{Value: 1, Timestamp: ms})
		}
		one.Timeseries, two.Timeseries = append(one.Timeseries, a), append(two.Timeseries, b)
	}
	for version, message := range map[RemoteWriteVersion]interface{ Marshal() ([]byte, error) }{RemoteWrite1: one, RemoteWrite2: two} {
		body, err := message.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		checkRemote(t, body, version)
		var b Batch
		if err := RemoteWrite(&b, body, version, Limits{}); err != nil {
			t.Fatal(err)
		}
		const within = "; times are from -2305843009213693952 to 2305843009213693951 ms"
		want := []string{
			"series 1: out of bounds: 2 refused, the first of them sample 2 at 2305843009213693952 ms" + within,
			"series 2: out of bounds: 1 refused, the first of them sample 1 at -2305843009213693953 ms" + within,
		}
		if got := messages(&b); !slices.Equal(got, want) || b.ErrorPoints != 3 || b.Samples != 5 || len(b.Points) != 2 {
			t.Errorf("version %d: %d points, %d of %d refused: %q", version, len(b.Points), b.ErrorPoints, b.Samples, got)
		}
	}
}

// TestRemoteWriteMetadata reads what is said of metrics, in both versions.
func TestRemoteWriteMetadata(t *testing.T) {
	one := &prompb.WriteRequest{Metadata: []prompb.MetricMetadata{
		{MetricFamilyName: "up", Type: prompb.MetricMetadata_GAUGE, Help: "Is it?", Unit: "bool"}, {MetricFamilyName: "x_total", Type: 99}, {Help: "of nothing"},
	}}
	two := &writev2.Request{
		Symbols: []string{"", "job", "node", "__name__", "up", "Is it?", "bool"},
		Timeseries: []writev2.TimeSeries{
			{LabelsRefs: []uint32{3, 4, 1, 2}, Samples: []writev2.Sample{{Value: 1}}, Metadata: writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_GAUGE, HelpRef: 5, UnitRef: 6}},
			{LabelsRefs: []uint32{1, 2, 3, 4}, Samples: []writev2.Sample{{Value: 1}}, Metadata: writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_COUNTER, HelpRef: 99}},
			{LabelsRefs: []uint32{3, 4}, Samples: []writev2.Sample{{Value: 1}}},
		},
	}
	for version, c := range map[RemoteWriteVersion]struct {
		message interface{ Marshal() ([]byte, error) }
		want    []string
	}{
		RemoteWrite1: {one, []string{"up gauge Is it? bool", "x_total unknown  "}},
		RemoteWrite2: {two, []string{"up gauge Is it? bool", "up counter  "}},
	} {
		body, err := c.message.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		var b Batch
		if err := RemoteWrite(&b, body, version, Limits{}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range b.Metadata {
			text := func(s Span) string { return string(b.Body[s.Start:s.End]) }
			got = append(got, text(m.Metric)+" "+m.Type.String()+" "+text(m.Help)+" "+text(m.Unit))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("version %d: %q, want %q", version, got, c.want)
		}
	}
}

// TestRemoteWriteScattered puts a sample between the labels and the symbols
// behind the series, which protobuf allows.
func TestRemoteWriteScattered(t *testing.T) {
	label := func(name, value string) []byte {
		b, err := (&prompb.Label{Name: name, Value: value}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	field := func(number byte, payload []byte) []byte {
		return append(binary.AppendUvarint([]byte{number<<3 | wireBytes}, uint64(len(payload))), payload...)
	}
	sample, err := (&prompb.Sample{Value: 7, Timestamp: 9}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	series := append(append(field(1, label("job", "x")), field(2, sample)...), field(1, label("__name__", "m"))...)
	checkRemote(t, field(1, series), RemoteWrite1)
	var b Batch
	if err := RemoteWrite(&b, field(1, series), RemoteWrite1, Limits{}); err != nil || len(b.Lines) != 1 || !b.Lines[0].InScratch {
		t.Fatal(err, b.Lines)
	}
	full := request2()
	symbols := writev2.Request{Symbols: full.Symbols}
	full.Symbols = nil
	front, err1 := full.Marshal()
	behind, err2 := symbols.Marshal()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	checkRemote(t, append(front, behind...), RemoteWrite2)
}

func TestRemoteWriteRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.SampledFrom([]string{"__name__", "job", "a", ""}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		one, two := &prompb.WriteRequest{}, &writev2.Request{}
		symbols := writev2.NewSymbolTable()
		for i := range rapid.IntRange(0, 4).Draw(t, "series") {
			var a prompb.TimeSeries
			var b writev2.TimeSeries
			if rapid.Bool().Draw(t, "named") {
				a.Labels = append(a.Labels, prompb.Label{Name: "__name__", Value: fmt.Sprint("m", i)})
			}
			for range rapid.IntRange(0, 4).Draw(t, "labels") {
				a.Labels = append(a.Labels, prompb.Label{Name: text.Draw(t, "name"), Value: text.Draw(t, "value")})
			}
			for _, l := range a.Labels {
				b.LabelsRefs = append(b.LabelsRefs, symbols.Symbolize(l.Name), symbols.Symbolize(l.Value))
			}
			for range rapid.IntRange(0, 3).Draw(t, "samples") {
				s := prompb.Sample{Value: math.Float64frombits(rapid.Uint64().Draw(t, "bits")), Timestamp: rapid.Int64().Draw(t, "time")}
				if rapid.Bool().Draw(t, "short") {
					s.Value = float64(rapid.Int32().Draw(t, "n")) / 1000
				}
				a.Samples = append(a.Samples, s)
				b.Samples = append(b.Samples, writev2.Sample{Value: s.Value, Timestamp: s.Timestamp})
			}
			one.Timeseries, two.Timeseries = append(one.Timeseries, a), append(two.Timeseries, b)
		}
		two.Symbols = symbols.Symbols()
		body, err := one.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		checkRemote(t, body, RemoteWrite1)
		if body, err = two.Marshal(); err != nil {
			t.Fatal(err)
		}
		checkRemote(t, body, RemoteWrite2)
	})
}

// TestRemoteWriteLabelBomb checks that references to a large symbol are bounded.
func TestRemoteWriteLabelBomb(t *testing.T) {
	request := &writev2.Request{Symbols: []string{"", "__name__", strings.Repeat("x", 1<<20)}}
	for range 1000 {
		request.Timeseries = append(request.Timeseries, writev2.TimeSeries{LabelsRefs: []uint32{1, 2}, Samples: []writev2.Sample{{Value: 1}}})
	}
	body, err := request.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	if err := RemoteWrite(&b, body, RemoteWrite2, Limits{}); err != nil {
		t.Fatal(err)
	}
	if b.ErrorsTotal != 1000 || len(b.Lines) > 0 || cap(b.Scratch) > 1<<20 {
		t.Fatalf("%d errors, %d lines, %d bytes of scratch", b.ErrorsTotal, len(b.Lines), cap(b.Scratch))
	}
}

// The references of one series take bounded memory.
func TestRemoteWriteReferenceBomb(t *testing.T) {
	request := &writev2.Request{
		Symbols: []string{"", metricLabel, "m"},
		Timeseries: []writev2.TimeSeries{
			{LabelsRefs: make([]uint32, 1<<20), Samples: []writev2.Sample{{Value: 1, Timestamp: 1}, {Value: 2, Timestamp: 2}}},
			{LabelsRefs: []uint32{1, 2}, Samples: []writev2.Sample{{Value: 3, Timestamp: 3}}},
		},
	}
	body, err := request.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	if err := RemoteWrite(&b, body, RemoteWrite2, Limits{}); err != nil {
		t.Fatal(err)
	}
	if len(b.Lines) != 1 || len(b.Errors) != 1 || b.Errors[0].Kind != KindLimit || b.Errors[0].Points != 2 || b.ErrorPoints != 2 {
		t.Errorf("%d lines, errors %v, %d points lost", len(b.Lines), b.Errors, b.ErrorPoints)
	}
	if got := b.MemoryBytes(); got > 1<<18 {
		t.Errorf("the batch keeps %d bytes", got)
	}
}
