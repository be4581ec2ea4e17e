package promdiff

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	prom "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/router/query/promql"
	"github.com/tickmesh/tickmesh/router/split"
)

var (
	seed  = flag.Uint64("seed", 1, "what is written and asked")
	count = flag.Int("expressions", 400, "expressions that are compared in one process")
)

// The time of the data: an hour, its beginning not at a whole minute.
const (
	dataFromMs = 1_750_000_000_000
	dataToMs   = dataFromMs + 3600_000
	// Steps are at whole seconds and never at whole minutes, where subqueries have theirs.
	offsetMs = 7_000
)

// slow is a storage.Queryable over a list: it is written to be read, not to be fast.
type slow struct{ data []Series }

func (s slow) Querier(fromMs, toMs int64) (storage.Querier, error) {
	return slowQuerier{s, fromMs, toMs}, nil
}

type slowQuerier struct {
	slow
	fromMs, toMs int64
}

func (q slowQuerier) Close() error { return nil }

func (q slowQuerier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (q slowQuerier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Select returns the samples of the querier's range, whatever the hints say, by the hash of
// labels: the order in which sums of floats are the same as ours to the last bit.
func (q slowQuerier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := slices.Clone(q.data)
	found = slices.DeleteFunc(found, func(s Series) bool {
		return slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels.Get(m.Name)) })
	})
	slices.SortFunc(found, func(a, b Series) int { return cmp.Compare(a.Labels.Hash(), b.Labels.Hash()) })
	set := &slowSet{}
	for _, s := range found {
		var samples []chunks.Sample
		for i, at := range s.TimesMs {
			if at >= q.fromMs && at <= q.toMs {
				samples = append(samples, sample{at, s.Values[i]})
			}
		}
		if len(samples) > 0 {
			set.series = append(set.series, storage.NewListSeries(s.Labels, samples))
		}
	}
	return set
}

// sample is a chunks.Sample.
type sample struct {
	timeMs int64
	value  float64
}

func (s sample) ST() int64                     { return 0 }
func (s sample) T() int64                      { return s.timeMs }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

type slowSet struct {
	series []storage.Series
	at     int
}

func (s *slowSet) Next() bool                        { s.at++; return s.at <= len(s.series) }
func (s *slowSet) At() storage.Series                { return s.series[s.at-1] }
func (s *slowSet) Err() error                        { return nil }
func (s *slowSet) Warnings() annotations.Annotations { return nil }

// load writes data into a node in memory, through parser, splitter and log.
func load(t *testing.T, data []Series) *node.Node {
	t.Helper()
	n, err := node.Open(node.Options{FS: vfs.NewMemFS(), DataDir: "data", Shards: 4, Sync: node.SyncOff, LogFileBytes: 1 << 20,
		ExtentBytes: 64 << 10, GenerationBytesMax: 4 << 20, CheckpointBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	splitter, err := split.New(split.Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range Writes(data, 300_000) {
		body, err := w.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		var batch parse.Batch
		if err := parse.RemoteWrite(&batch, body, parse.RemoteWrite1, parse.Limits{}); err != nil || batch.ErrorsTotal > 0 {
			t.Fatal(err, batch.Errors)
		}
		if _, err := n.Write(t.Context(), splitter.Split(&batch, nil, n, 0)); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// moment is when an expression is evaluated.
type moment struct{ startMs, endMs, stepMs int64 }

// moments returns instants and ranges within the data and a little around it.
func moments(rng *rand.Rand) moment {
	// Up to the lookback behind the data's end, where the newest samples are what is seen.
	start := dataFromMs/60_000*60_000 + offsetMs + rng.Int64N(67)*60_000
	if rng.IntN(2) == 0 {
		return moment{start, start, 0}
	}
	step := []int64{60_000, 120_000, 600_000}[rng.IntN(3)]
	return moment{start, start + rng.Int64N(20)*60_000, step}
}

func (m moment) form(text string) (path string, form url.Values) {
	seconds := func(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64) }
	form = url.Values{"query": {text}, "time": {seconds(m.startMs)}}
	if m.stepMs == 0 {
		return "query", form
	}
	form.Set("start", seconds(m.startMs))
	form.Set("end", seconds(m.endMs))
	form.Set("step", seconds(m.stepMs))
	return "query_range", form
}

// engineTolerance is for the engine itself, which sums in the order of a Go map here and
// there.
const engineTolerance = 1e-12

// TestEngine: our storage under Prometheus' engine, through the HTTP API, returns what a slow
// one returns under the same engine.
func TestEngine(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seed, 1))
	data := Data(rng, dataFromMs, dataToMs, false)
	h := promql.New(promql.Options{Source: load(t, data), Experimental: true, Parallel: 3})
	options := parser.Options{EnableExperimentalFunctions: true}
	engine := prom.NewEngine(prom.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Hour, EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 }, Parser: parser.NewParser(options)})
	expressions := &Expressions{RNG: rng, AtMs: dataFromMs + 1800_000}
	full, failed := 0, 0
	for i := range *count {
		text, m := expressions.Vector(3), moments(rng)
		want := evaluate(t, engine, slow{data}, text, m)
		path, form := m.form(text)
		w := httptest.NewRecorder()
		access.Open(h).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/"+path+"?"+form.Encode(), nil))
		got, err := ParseAnswer(w.Code, w.Body.Bytes())
		if err != nil {
			t.Fatalf("%s %+v: %v", text, m, err)
		}
		if found := Difference(want, got, engineTolerance); found != "" {
			t.Errorf("seed %d, expression %d, %+v: %s\n%s", *seed, i, m, text, found)
		}
		// Of more than nine notes of a kind only some are told, at random.
		if !slices.Equal(want.Notes, got.Notes) && len(want.Notes) < 10 {
			t.Errorf("seed %d, expression %d, %+v: notes %q, want %q\n%s", *seed, i, m, got.Notes, want.Notes, text)
		}
		if len(want.Points) > 0 {
			full++
		}
		if want.Status != http.StatusOK {
			failed++
		}
	}
	t.Logf("%d expressions, %d with a result, %d with an error", *count, full, failed)
	if full < *count/2 {
		t.Errorf("only %d of %d expressions had a result", full, *count)
	}
}

// evaluate runs an expression over a storage.
func evaluate(t *testing.T, engine *prom.Engine, q storage.Queryable, text string, m moment) *Answer {
	t.Helper()
	var query prom.Query
	var err error
	if m.stepMs == 0 {
		query, err = engine.NewInstantQuery(t.Context(), q, nil, text, time.UnixMilli(m.startMs))
	} else {
		query, err = engine.NewRangeQuery(t.Context(), q, nil, text, time.UnixMilli(m.startMs), time.UnixMilli(m.endMs), time.Duration(m.stepMs)*time.Millisecond)
	}
	if err != nil {
		return &Answer{Status: http.StatusBadRequest, Type: "bad_data", Text: err.Error()}
	}
	defer query.Close()
	result := query.Exec(t.Context())
	if result.Err != nil {
		return &Answer{Status: http.StatusUnprocessableEntity, Type: "execution", Text: result.Err.Error()}
	}
	warnings, infos := result.Warnings.AsStrings(text, 10, 10)
	a := &Answer{Status: http.StatusOK, Type: string(result.Value.Type()), Points: map[string][]Point{}, Notes: append(warnings, infos...)}
	slices.Sort(a.Notes)
	name := func(l labels.Labels) string { return labelsText(l.Map()) }
	switch v := result.Value.(type) {
	case prom.Vector:
		for _, s := range v {
			a.Points[name(s.Metric)] = []Point{{s.T, s.F}}
		}
	case prom.Matrix:
		for _, s := range v {
			for _, p := range s.Floats {
				a.Points[name(s.Metric)] = append(a.Points[name(s.Metric)], Point{p.T, p.F})
			}
		}
	case prom.Scalar:
		a.Points[""] = []Point{{v.T, v.V}}
	default:
		text, _ := json.Marshal(v) // for the failure's text only
		t.Fatalf("a result %s", text)
	}
	return a
}
