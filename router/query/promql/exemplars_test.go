package promql

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/jsonutil"

	jsoniter "github.com/json-iterator/go"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// exemplarLab is exemplars of the series of a memory, slow and obvious.
type exemplarLab struct {
	memory *scantest.Memory
	kept   []series.Exemplar // in the order in which they came
}

// Exemplars implements scan.ExemplarSource.
func (l *exemplarLab) Exemplars(ctx context.Context, selector *scan.Selector, fromMs, toMs int64, visit func(*series.Exemplar) error) error {
	var keys []series.Key
	if _, err := l.memory.Series(ctx, selector, 0, func(key series.Key) error {
		keys = append(keys, slices.Clone(key))
		return nil
	}); err != nil {
		return err
	}
	for _, key := range keys {
		for i := range l.kept {
			if e := &l.kept[i]; string(e.Key) == string(key) && e.TimeMs >= fromMs && e.TimeMs <= toMs {
				if err := visit(e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// prometheusJSON writes what Prometheus has found as its API does.
func prometheusJSON(found []exemplar.QueryResult) string {
	stream := jsoniter.NewStream(jsoniter.ConfigCompatibleWithStandardLibrary, nil, 0)
	object := func(l labels.Labels) {
		stream.WriteRaw("{")
		first := true
		l.Range(func(l labels.Label) {
			if !first {
				stream.WriteRaw(",")
			}
			first = false
			stream.WriteString(l.Name)
			stream.WriteRaw(":")
			stream.WriteString(l.Value)
		})
		stream.WriteRaw("}")
	}
	stream.WriteRaw(`{"status":"success","data":[`)
	for i, of := range found {
		if i > 0 {
			stream.WriteRaw(",")
		}
		stream.WriteRaw(`{"seriesLabels":`)
		object(of.SeriesLabels)
		stream.WriteRaw(`,"exemplars":[`)
		for n, e := range of.Exemplars {
			if n > 0 {
				stream.WriteRaw(",")
			}
			stream.WriteRaw(`{"labels":`)
			object(e.Labels)
			stream.WriteRaw(`,"value":`)
			jsonutil.MarshalFloat(e.Value, stream)
			stream.WriteRaw(`,"timestamp":`)
			jsonutil.MarshalTimestamp(e.Ts, stream)
			stream.WriteRaw("}")
		}
		stream.WriteRaw("]}")
	}
	stream.WriteRaw("]}")
	return string(stream.Buffer())
}

// TestExemplars compares answers with those of Prometheus' storage of exemplars, and its way to write them.
func TestExemplars(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 1))
	options := labOptions(t)
	lab := &exemplarLab{memory: options.Source.(*scantest.Memory)}
	options.Exemplars = lab
	oracle, err := tsdb.NewCircularExemplarStorage(1000, tsdb.NewExemplarMetrics(nil), 0)
	if err != nil {
		t.Fatal(err)
	}
	var keys []series.Key
	if _, err := lab.memory.Series(t.Context(), &scan.Selector{MetricAny: true}, 0, func(key series.Key) error {
		keys = append(keys, slices.Clone(key))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		e := series.Exemplar{Key: keys[random.IntN(len(keys))], TimeMs: labMs + int64(i)*random.Int64N(2)*1000 + int64(i), Value: random.NormFloat64()}
		switch random.IntN(8) {
		case 0:
			e.Value = math.Inf(1)
		case 1:
			e.Value = math.NaN()
		case 2:
			e.Value = 1e-9
		}
		for n := range random.IntN(3) {
			e.Labels = append(e.Labels, series.ExemplarLabel{Name: fmt.Sprint("l", n), Value: "\"ä<\n" + fmt.Sprint(i)})
		}
		var names naming
		of, err := names.labels(e.Key)
		if err != nil {
			t.Fatal(err)
		}
		var own []string
		for _, l := range e.Labels {
			own = append(own, l.Name, l.Value)
		}
		if oracle.AddExemplar(of, exemplar.Exemplar{Labels: labels.FromStrings(own...), Value: e.Value, Ts: e.TimeMs, HasTs: true}) == nil {
			lab.kept = append(lab.kept, e)
		}
	}
	h := newHandler(options)
	querier, err := oracle.ExemplarQuerier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, query := range []string{
		`up`, `up{instance=~"a.*"}`, `{__name__=~".+"}`, `sum(rate(requests_total{code="200"}[5m] offset 1h)) / requests_total`, `up or up{job="node"}`, `requests_total{code!="200"} + lonely`, `none`, `1 + 1`,
	} {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			from := labMs + random.Int64N(100_000)
			to := from + random.Int64N(200_000)
			var want []exemplar.QueryResult
			if selectors := parser.ExtractSelectors(expr); len(selectors) > 0 {
				if want, err = querier.Select(from, to, selectors...); err != nil {
					t.Fatal(err)
				}
			}
			found += len(want)
			form := url.Values{"query": {query}, "start": {fmt.Sprintf("%d.%03d", from/1000, from%1000)}, "end": {fmt.Sprintf("%d.%03d", to/1000, to%1000)}}
			if got := post(h, "query_exemplars", form); got.status != http.StatusOK || got.body != prometheusJSON(want) {
				t.Fatalf("%s from %d to %d: %d %s\nPrometheus answers\n%s", query, from, to, got.status, got.body, prometheusJSON(want))
			}
		}
	}
	if found < 50 {
		t.Fatalf("only %d series were found", found)
	}
}

// TestExemplarsOfSeveral: series of several databases have the label that tells them apart; and limits of queries hold.
func TestExemplarsOfSeveral(t *testing.T) {
	options := labOptions(t)
	lab := &exemplarLab{memory: options.Source.(*scantest.Memory)}
	options.Exemplars = lab
	for _, database := range []string{"", "other"} {
		if _, err := lab.memory.Series(t.Context(), &scan.Selector{Database: database, Metric: "up"}, 0, func(key series.Key) error {
			lab.kept = append(lab.kept, series.Exemplar{Key: slices.Clone(key), TimeMs: labMs, Value: 1}, series.Exemplar{Key: slices.Clone(key), TimeMs: labMs + 1, Value: 1})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(h http.Handler, query string) answered {
		return getJoined(h, pathPrefix+"query_exemplars?query="+url.QueryEscape(query), "default"+access.DatabaseJoint+"other")
	}
	h := newHandler(options)
	if got := ask(h, "up"); strings.Count(got.body, `"__tenant_id__":"default"`) != 2 || strings.Count(got.body, `"__tenant_id__":"other","job":"elsewhere"`) != 1 || strings.Count(got.body, `"timestamp"`) != 6 {
		t.Error(got)
	}
	if got := ask(h, `up{__tenant_id__="other"}`); strings.Count(got.body, "seriesLabels") != 1 || !strings.Contains(got.body, "elsewhere") {
		t.Error(got)
	}
	if got := get(h, "query_exemplars?query=up"); strings.Count(got.body, "seriesLabels") != 2 || strings.Contains(got.body, "__tenant_id__") {
		t.Error(got)
	}
	for name, limits := range map[string]admission.Limits{"series": {SeriesMax: 1}, "samples": {SamplesMax: 3}} {
		limited := options
		limited.Admission = admission.New(admission.Options{Limits: limits})
		if got := get(newHandler(limited), "query_exemplars?query=up"); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, name) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
