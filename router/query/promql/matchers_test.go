package promql

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// drawMatcher returns a matcher of any kind, on labels that series may have or not.
func drawMatcher(t *rapid.T) *labels.Matcher {
	kind := rapid.SampledFrom([]labels.MatchType{labels.MatchEqual, labels.MatchNotEqual, labels.MatchRegexp, labels.MatchNotRegexp}).Draw(t, "kind")
	values := []string{"", "x", "y", "xy", "x\ny"}
	if kind == labels.MatchRegexp || kind == labels.MatchNotRegexp {
		values = []string{"", "x", "x|y", "x.*", ".*", ".+", "x?", "(?i)X", "x.y", "[^x]*", "(x|y)y?", "x|", "m.*", "m1|m2|gone"}
	}
	name := rapid.SampledFrom([]string{nameLabel, nameLabel, "a", "b", "c"}).Draw(t, "label")
	if name == nameLabel && (kind == labels.MatchEqual || kind == labels.MatchNotEqual) {
		values = []string{"", "m1", "m2", "gone"}
	}
	return labels.MustNewMatcher(kind, name, rapid.SampledFrom(values).Draw(t, "value"))
}

// TestSelectors: selectors pick exactly the series whose labels all matchers match, each
// once; labels, their names and values follow from these.
func TestSelectors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := scantest.NewMemory()
		all := map[string]labels.Labels{}
		for range rapid.IntRange(0, 12).Draw(t, "series") {
			metric := rapid.SampledFrom([]string{"m1", "m2", "n", "x", "x\ny"}).Draw(t, "metric")
			l := map[string]string{nameLabel: metric}
			var tags []series.Tag
			for _, name := range []string{"a", "b", "Z"} {
				if value := rapid.SampledFrom([]string{"none", "", "x", "y", "xy", "x\ny"}).Draw(t, name); value != "none" {
					tags = append(tags, series.Tag{Name: []byte(name), Value: []byte(value)})
					if value != "" {
						l[name] = value
					}
				}
			}
			key := series.AppendKey(nil, nil, []byte(metric), tags)
			if err := memory.Put(key, series.Sample{TimeMs: 1, Value: 1}); err != nil {
				t.Fatal(err)
			}
			all[key.String()] = labels.FromMap(l)
		}
		matchers := rapid.SliceOfN(rapid.Custom(drawMatcher), 0, 3).Draw(t, "matchers")
		var want []string
		names, values := map[string]bool{}, map[string]bool{}
		for _, l := range all {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) }) {
				want = append(want, l.String())
				l.Range(func(l labels.Label) { names[l.Name] = true })
				if v := l.Get("a"); v != "" {
					values[v] = true
				}
			}
		}
		q := &querier{queryable: &queryable{source: memory, parallel: 2}, fromMs: 0, toMs: 10}
		set := q.Select(context.Background(), true, nil, matchers...)
		var got []string
		var before labels.Labels
		for set.Next() {
			l := set.At().Labels()
			if got = append(got, l.String()); labels.Compare(before, l) > 0 {
				t.Fatalf("%v comes after %v", l, before)
			}
			before = l
		}
		slices.Sort(want)
		slices.Sort(got)
		if set.Err() != nil || !slices.Equal(got, want) {
			t.Fatalf("%v: %v\n got %v\nwant %v", matchers, set.Err(), got, want)
		}
		checkNames(t, q, matchers, names, values)
	})
}

func checkNames(t *rapid.T, q *querier, matchers []*labels.Matcher, names, values map[string]bool) {
	ctx := context.Background()
	for _, list := range []struct {
		what string
		want map[string]bool
		get  func() ([]string, error)
	}{
		{"names", names, func() ([]string, error) { l, _, err := q.LabelNames(ctx, nil, matchers...); return l, err }},
		{"values", values, func() ([]string, error) { l, _, err := q.LabelValues(ctx, "a", nil, matchers...); return l, err }},
	} {
		got, err := list.get()
		want := make([]string, 0, len(list.want))
		for name := range list.want {
			want = append(want, name)
		}
		slices.Sort(want)
		if list.what == "names" && !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name != nameLabel }) {
			// What only the metric restricts is listed by tags, also those that are always empty.
			got = slices.DeleteFunc(got, func(name string) bool { return name != nameLabel && !list.want[name] })
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v: %s: %v\n got %v\nwant %v", matchers, list.what, err, got, want)
		}
	}
}

// TestManyMetrics: a regular expression on the metric reads its metrics only.
func TestManyMetrics(t *testing.T) {
	memory := scantest.NewMemory()
	for i := range 300 {
		put(t, memory, "", fmt.Sprintf("metric_%03d", i), []float64{float64(i)})
	}
	m := labels.MustNewMatcher(labels.MatchRegexp, nameLabel, "metric_00.")
	selectors, err := selectorsOf(context.Background(), memory, "", []*labels.Matcher{m})
	if err != nil || len(selectors) != 10 || selectors[9].Metric != "metric_009" || selectors[0].MetricAny {
		t.Fatal(selectors, err)
	}
	any := labels.MustNewMatcher(labels.MatchRegexp, nameLabel, ".+")
	if selectors, err = selectorsOf(context.Background(), memory, "", []*labels.Matcher{any}); err != nil || len(selectors) != 1 || !selectors[0].MetricAny {
		t.Fatal(selectors, err)
	}
}
