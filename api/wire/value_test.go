package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// over sends a message over the wire.
func over[M proto.Message](t interface{ Fatal(args ...any) }, m, empty M) M {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b, empty); err != nil {
		t.Fatal(err)
	}
	return empty
}

// anyBytes makes names of any bytes, not only UTF-8.
func anyBytes() *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) })
}

func drawSelector(rt *rapid.T) scan.Selector {
	s := scan.Selector{Database: anyBytes().Draw(rt, "database"), Exact: rapid.Bool().Draw(rt, "exact")}
	if s.MetricAny = rapid.Bool().Draw(rt, "any"); !s.MetricAny {
		s.Metric = anyBytes().Draw(rt, "metric")
	}
	for range rapid.IntRange(0, 4).Draw(rt, "matchers") {
		m := scan.Matcher{Name: anyBytes().Draw(rt, "name"), Kind: scan.MatchKind(rapid.IntRange(0, int(scan.MatchAbsent)).Draw(rt, "kind"))}
		least, most := 0, 3
		switch m.Kind {
		case scan.MatchEqual, scan.MatchNotEqual, scan.MatchRegexp, scan.MatchNotRegexp:
			least, most = 1, 1
		case scan.MatchPresent, scan.MatchAbsent:
			most = 0
		}
		for range rapid.IntRange(least, most).Draw(rt, "values") {
			m.Values = append(m.Values, anyBytes().Draw(rt, "value"))
		}
		s.Matchers = append(s.Matchers, m)
	}
	return s
}

func TestSelectorsSurvive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := drawSelector(rt)
		got, err := ToSelector(over(rt, FromSelector(&want), &tickmeshv1.Selector{}))
		if err != nil || !reflect.DeepEqual(got, want) {
			rt.Fatalf("%+v became %+v, %v", want, got, err)
		}
		limits := scan.Limits{
			SeriesMax: rapid.Int64Min(0).Draw(rt, "series"), SamplesMax: rapid.Int64Min(0).Draw(rt, "samples"), BytesMax: rapid.Int64Min(0).Draw(rt, "bytes"),
		}
		if got, err := ToLimits(over(rt, FromLimits(limits), &tickmeshv1.ScanLimits{})); err != nil || got != limits {
			rt.Fatalf("%+v became %+v, %v", limits, got, err)
		}
		windows := scan.Windows{
			OriginMs: rapid.Int64().Draw(rt, "origin"), WidthMs: rapid.Int64Min(1).Draw(rt, "width"),
			Aggregates:      scan.Aggregate(rapid.OneOf(rapid.IntRange(1, 63), rapid.Just(64), rapid.Just(66)).Draw(rt, "aggregates")),
			RecordedDigests: rapid.Bool().Draw(rt, "recorded"),
		}
		if got, err := ToWindows(over(rt, FromWindows(&windows), &tickmeshv1.Windows{})); err != nil || *got != windows {
			rt.Fatalf("%+v became %+v, %v", windows, got, err)
		}
	})
	if w, err := ToWindows(FromWindows(nil)); w != nil || err != nil {
		t.Errorf("no windows became %v, %v", w, err)
	}
}

// TestAggregatesAreInOrder: the numbers of the message are the bits of
// scan.Aggregate, in this order.
func TestAggregatesAreInOrder(t *testing.T) {
	for aggregate, want := range map[scan.Aggregate]tickmeshv1.Aggregate{
		scan.AggregateSum: tickmeshv1.Aggregate_AGGREGATE_SUM, scan.AggregateCount: tickmeshv1.Aggregate_AGGREGATE_COUNT,
		scan.AggregateMin: tickmeshv1.Aggregate_AGGREGATE_MIN, scan.AggregateMax: tickmeshv1.Aggregate_AGGREGATE_MAX,
		scan.AggregateFirst: tickmeshv1.Aggregate_AGGREGATE_FIRST, scan.AggregateLast: tickmeshv1.Aggregate_AGGREGATE_LAST,
		scan.AggregateDigest: tickmeshv1.Aggregate_AGGREGATE_DIGEST,
	} {
		if got := FromWindows(&scan.Windows{Aggregates: aggregate}).GetAggregates(); !slices.Equal(got, []tickmeshv1.Aggregate{want}) {
			t.Errorf("%v became %v", want, got)
		}
	}
	for kind, want := range map[scan.MatchKind]tickmeshv1.MatchKind{
		scan.MatchEqual: tickmeshv1.MatchKind_MATCH_KIND_EQUAL, scan.MatchNotEqual: tickmeshv1.MatchKind_MATCH_KIND_NOT_EQUAL,
		scan.MatchIn: tickmeshv1.MatchKind_MATCH_KIND_IN, scan.MatchNotIn: tickmeshv1.MatchKind_MATCH_KIND_NOT_IN,
		scan.MatchEqualFold: tickmeshv1.MatchKind_MATCH_KIND_EQUAL_FOLD, scan.MatchNotEqualFold: tickmeshv1.MatchKind_MATCH_KIND_NOT_EQUAL_FOLD,
		scan.MatchRegexp: tickmeshv1.MatchKind_MATCH_KIND_REGEXP, scan.MatchNotRegexp: tickmeshv1.MatchKind_MATCH_KIND_NOT_REGEXP,
		scan.MatchPresent: tickmeshv1.MatchKind_MATCH_KIND_PRESENT, scan.MatchAbsent: tickmeshv1.MatchKind_MATCH_KIND_ABSENT,
	} {
		if got := FromSelector(&scan.Selector{Matchers: []scan.Matcher{{Kind: kind}}}).GetMatchers()[0].GetKind(); got != want {
			t.Errorf("%v became %v", want, got)
		}
	}
}

func bitsOf(values []float64) []uint64 {
	var b []uint64
	for _, v := range values {
		b = append(b, math.Float64bits(v))
	}
	return b
}

func TestColumnsSurvive(t *testing.T) {
	var reused scan.Chunk
	message := &tickmeshv1.Columns{}
	rapid.Check(t, func(rt *rapid.T) {
		times := rapid.SliceOfNDistinct(rapid.Int64Range(scan.TimeMsMin, scan.TimeMsMax), 0, 20, rapid.ID[int64]).Draw(rt, "times")
		slices.Sort(times)
		column := func(name string) []float64 {
			if !rapid.Bool().Draw(rt, name) {
				return nil
			}
			var values []float64
			for range times {
				values = append(values, math.Float64frombits(rapid.Uint64().Draw(rt, name)))
			}
			return values
		}
		want := scan.Chunk{Times: times, Values: column("values"), Sum: column("sum"), Min: column("min"), Max: column("max"), First: column("first"), Last: column("last")}
		if rapid.Bool().Draw(rt, "count") {
			want.Count = make([]int64, len(times))
		}
		if rapid.Bool().Draw(rt, "digest") {
			want.Digest = rapid.SliceOfN(rapid.Uint64(), len(times), len(times)).Draw(rt, "digests")
		}
		SetColumns(message, &want)
		if err := SetChunk(&reused, over(rt, message, &tickmeshv1.Columns{})); err != nil {
			rt.Fatal(err)
		}
		for i, c := range [][2][]float64{{want.Values, reused.Values}, {want.Sum, reused.Sum}, {want.Min, reused.Min}, {want.Max, reused.Max}, {want.First, reused.First}, {want.Last, reused.Last}} {
			if !slices.Equal(bitsOf(c[0]), bitsOf(c[1])) {
				rt.Fatalf("column %d: %v became %v", i, c[0], c[1])
			}
		}
		if !slices.Equal(times, reused.Times) || !slices.Equal(want.Count, reused.Count) || !slices.Equal(want.Digest, reused.Digest) {
			rt.Fatalf("%v became %v", times, reused.Times)
		}
	})
}

func TestBadColumns(t *testing.T) {
	for name, m := range map[string]*tickmeshv1.Columns{
		"lengths":       {TimeDeltasMs: []int64{1, 2}, Values: []float64{1}},
		"values only":   {Values: []float64{1}},
		"same time":     {TimeDeltasMs: []int64{1, 0}},
		"back":          {TimeDeltasMs: []int64{1, -1}},
		"too late":      {TimeDeltasMs: []int64{scan.TimeMsMax, 1}},
		"too early":     {TimeDeltasMs: []int64{scan.TimeMsMin - 1}},
		"overflow":      {TimeDeltasMs: []int64{1, math.MaxInt64}},
		"overflow back": {TimeDeltasMs: []int64{math.MinInt64}},
	} {
		if err := SetChunk(&scan.Chunk{}, m); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if times, err := AppendTimes(nil, []int64{5, -3, 0}, math.MinInt64); err != nil || !slices.Equal(times, []int64{5, 2, 2}) {
		t.Errorf("times without an order became %v, %v", times, err)
	}
}

func TestKeysSurvive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfNDistinct(anyBytes(), 0, 5, rapid.ID[string]).Draw(rt, "names")
		var tags []series.Tag
		m := &tickmeshv1.Series{Database: []byte(anyBytes().Draw(rt, "database")), Metric: []byte(anyBytes().Draw(rt, "metric"))}
		for _, name := range names {
			value := []byte(anyBytes().Draw(rt, "value"))
			tags = append(tags, series.Tag{Name: []byte(name), Value: value})
			m.Tags = append(m.Tags, &tickmeshv1.Tag{Name: []byte(name), Value: value})
		}
		want := series.AppendKey(nil, m.Database, m.Metric, tags)
		got, err := AppendKey([]byte("before"), over(rt, m, &tickmeshv1.Series{}))
		if err != nil || !bytes.Equal(got, append([]byte("before"), want...)) {
			rt.Fatalf("%v became %v, %v", want, got, err)
		}
		back, err := FromKey(want)
		if err != nil {
			rt.Fatal(err)
		}
		if again, err := AppendKey(nil, over(rt, back, &tickmeshv1.Series{})); err != nil || !bytes.Equal(again, want) {
			rt.Fatalf("%v came back as %v, %v", want, again, err)
		}
	})
	twice := []*tickmeshv1.Tag{{Name: []byte("a")}, {Name: []byte("b")}, {Name: []byte("a")}}
	for name, m := range map[string]*tickmeshv1.Series{
		"twice":    {Tags: twice},
		"too many": {Tags: make([]*tickmeshv1.Tag, series.TagsMax+1)},
		"too long": {Metric: make([]byte, series.KeyBytesMax)},
		"longer":   {Metric: make([]byte, series.KeyBytesMax+1)},
	} {
		if _, err := AppendKey(nil, m); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := FromKey(series.Key{9}); !errors.Is(err, series.ErrKey) {
		t.Errorf("no key: got %v", err)
	}
}

func TestPartOutcomes(t *testing.T) {
	for name, m := range map[string]*nodev1.PartResult{
		"no copies":         {},
		"too many copies":   {Copies: 1 << 20},
		"refusal for none":  {Copies: 1, Refused: []*nodev1.RefusedDefinition{{}}},
		"id of no series":   {Copies: 1, Defined: []*nodev1.Defined{{Id: uint32(series.SlotBase)}}},
		"definition beyond": {Copies: 1, Defined: []*nodev1.Defined{{Definition: 1 << 31}}},
	} {
		if _, err := ToPartOutcomes([]*nodev1.PartResult{m}, []uint16{1}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := ToPartOutcomes(nil, []uint16{1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no results: got %v", err)
	}
}

// FuzzScanMessages: what is taken for columns, a selector or a series comes back as
// it was.
func FuzzScanMessages(f *testing.F) {
	for _, m := range []proto.Message{
		&tickmeshv1.Columns{TimeDeltasMs: []int64{5, 1}, Values: []float64{1, math.NaN()}},
		FromSelector(&scan.Selector{Metric: "m", Matchers: []scan.Matcher{{Name: "a", Kind: scan.MatchIn, Values: []string{"x"}}}}),
		&tickmeshv1.Series{Metric: []byte("m"), Tags: []*tickmeshv1.Tag{{Name: []byte("b")}, {Name: []byte("a")}}},
		&tickmeshv1.Windows{WidthMs: 60_000, OriginMs: -1, Aggregates: []tickmeshv1.Aggregate{1, 2}}, &tickmeshv1.ScanLimits{SeriesMax: 1, BytesMax: 2},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var columns tickmeshv1.Columns
		var chunk scan.Chunk
		if proto.Unmarshal(b, &columns) == nil && SetChunk(&chunk, &columns) == nil {
			if !slices.IsSorted(chunk.Times) {
				t.Fatalf("times %v", chunk.Times)
			}
			var again tickmeshv1.Columns
			SetColumns(&again, &chunk)
			if !slices.Equal(again.TimeDeltasMs, columns.TimeDeltasMs) || !slices.Equal(bitsOf(again.Values), bitsOf(columns.Values)) {
				t.Fatalf("%v came back as %v", &columns, &again)
			}
		}
		var selector tickmeshv1.Selector
		if proto.Unmarshal(b, &selector) == nil {
			if s, err := ToSelector(&selector); err == nil {
				if again, err := ToSelector(FromSelector(&s)); err != nil || fmt.Sprint(again) != fmt.Sprint(s) {
					t.Fatalf("%+v came back as %+v, %v", s, again, err)
				}
			}
		}
		var windows tickmeshv1.Windows
		if proto.Unmarshal(b, &windows) == nil {
			if w, err := ToWindows(&windows); err == nil && (w.WidthMs < 1 || w.Aggregates == 0) {
				t.Fatalf("windows %+v", w)
			}
		}
		var limits tickmeshv1.ScanLimits
		if proto.Unmarshal(b, &limits) == nil {
			if l, err := ToLimits(&limits); err == nil && min(l.SeriesMax, l.SamplesMax, l.BytesMax) < 0 {
				t.Fatalf("limits %+v", l)
			}
		}
		var m tickmeshv1.Series
		if proto.Unmarshal(b, &m) == nil {
			if key, err := AppendKey(nil, &m); err == nil {
				if _, err := FromKey(key); err != nil {
					t.Fatalf("%v gave key %x: %v", &m, key, err)
				}
			}
		}
	})
}
