package promql

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

func federate(h http.Handler, accept string, matches ...string) answered {
	r := httptest.NewRequest(http.MethodGet, pathFederate+"?"+url.Values{"match[]": matches}.Encode(), nil)
	r.Header.Set("Accept", accept)
	return do(h, r)
}

// exposition reads an answer as who scrapes it does: a line for each series, name{labels} value time.
func exposition(t interface{ Fatal(...any) }, a answered) (lines []string) {
	if a.status != http.StatusOK {
		t.Fatal(a.status, a.body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err, a.body)
	}
	for name, family := range families {
		if family.GetType() != dto.MetricType_UNTYPED {
			t.Fatal("the type of ", name, " is ", family.GetType())
		}
		for _, m := range family.GetMetric() {
			text := []string{}
			for _, l := range m.GetLabel() {
				text = append(text, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			slices.Sort(text)
			lines = append(lines, fmt.Sprintf("%s{%s} %v %d", name, strings.Join(text, ","), m.GetUntyped().GetValue(), m.GetTimestampMs()))
		}
	}
	slices.Sort(lines)
	return lines
}

const utf8Text = "text/plain;version=1.0.0;escaping=allow-utf-8"

func TestFederate(t *testing.T) {
	h := New(labOptions(t))
	for _, c := range []struct {
		name    string
		matches []string
		want    []string
	}{
		{"nothing is asked for", nil, nil},
		{"nothing matches", []string{"nobody"}, nil},
		{"a staleness marker ends a series", []string{"up"}, []string{`up{instance="a:9100",job="node"} 1 1750000000000`}},
		{"several, of which two pick the same", []string{`requests_total{code="200"}`, `{job="api"}`, "lonely"}, []string{
			`lonely{instance=""} 7 1750000000000`,
			`requests_total{code="200",instance="",job="api"} 90 1750000000000`, `requests_total{code="500",instance="",job="api"} 24 1750000000000`,
		}},
		{"names beyond the old set", []string{`{"cpu.load"}`}, []string{`cpu.load{Zone="eu",_field="idle",host="ä \"quoted\"\n",instance=""} 1e-07 1750000000000`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := exposition(t, federate(h, utf8Text, c.matches...)); !slices.Equal(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if a := federate(h, "text/plain", `{"cpu.load"}`); !strings.Contains(a.body, "cpu_load{") {
		t.Errorf("a name for clients that know only the old set: %s", a.body)
	}
	for _, match := range []string{"", "{}", "up[5m]", "up or up", `{job=~".*"}`} {
		if a := federate(h, "", match); a.status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", match, a.status, a.body)
		}
	}
	r := httptest.NewRequest(http.MethodPost, pathFederate, nil)
	if a := do(h, r); a.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", a.status)
	}
	if a := federate(h, "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "lonely"); !strings.HasPrefix(a.header.Get("Content-Type"), "application/vnd.google.protobuf") {
		t.Errorf("protobuf: %v", a.header)
	}
}

// Federation of another database needs the right to read it, and takes its place among queries.
func TestFederateDatabase(t *testing.T) {
	h := New(labOptions(t))
	r := httptest.NewRequest(http.MethodGet, pathFederate+"?match[]=up", nil)
	r.Header.Set("X-Scope-OrgID", "other")
	if got := exposition(t, do(h, r)); !slices.Equal(got, []string{`up{instance="",job="elsewhere"} 42 1750000000000`}) {
		t.Errorf("%s", got)
	}
}

// What is answered is the newest sample that is no older than the lookback, whatever lies around it.
func TestFederateAgainstModel(t *testing.T) {
	const lookback = 5 * time.Minute
	rapid.Check(t, func(t *rapid.T) {
		m := scantest.NewMemory()
		var want []string
		for i := range rapid.IntRange(1, 6).Draw(t, "series") {
			name := fmt.Sprintf("m%d", i%2)
			samples := map[int64]float64{}
			for range rapid.IntRange(0, 6).Draw(t, "samples") {
				at := labMs + rapid.SampledFrom([]int64{0, 1, -1, -299_999, -300_000, -300_001, -60_000, -120_000, 60_000, -3_600_000}).Draw(t, "time")
				samples[at] = rapid.SampledFrom([]float64{0, 1.5, -7, math.Inf(1), math.Float64frombits(value.StaleNaN)}).Draw(t, "value")
			}
			key := series.AppendKey(nil, nil, []byte(name), []series.Tag{{Name: []byte("i"), Value: fmt.Append(nil, i)}})
			newest := int64(math.MinInt64)
			for at, v := range samples {
				if err := m.Put(key, series.Sample{TimeMs: at, Value: v}); err != nil {
					t.Fatal(err)
				}
				if at <= labMs && at >= labMs-lookback.Milliseconds() {
					newest = max(newest, at)
				}
			}
			if v, has := samples[newest]; has && !value.IsStaleNaN(v) {
				want = append(want, fmt.Sprintf("%s{i=\"%d\",instance=\"\"} %v %d", name, i, v, newest))
			}
		}
		h := New(Options{Source: m, Clock: func() time.Time { return time.UnixMilli(labMs) }, LookbackDelta: lookback, Parallel: 2})
		slices.Sort(want)
		if got := exposition(t, federate(h, utf8Text, "m0", `{i!=""}`)); !slices.Equal(got, want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}

// TestFederatePaysForItsAnswer: what is charged for a family is what it takes in memory at least, however many labels its
// series have, and whatever format and names are asked for.
func TestFederatePaysForItsAnswer(t *testing.T) {
	const count = 500
	for _, labelCount := range []int{0, 3, 62} {
		for _, accept := range []string{utf8Text, "text/plain", "text/plain;escaping=values", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
			"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text"} {
			var found []*column
			for i := range count {
				text := []string{model.MetricNameLabel, "a.b", "i", fmt.Sprint(i)}
				for l := range labelCount {
					text = append(text, fmt.Sprintf("label.%d", l), fmt.Sprintf("value %d", i))
				}
				found = append(found, &column{labels: labels.FromStrings(text...), times: []int64{labMs}, values: []float64{1}})
			}
			r := httptest.NewRequest(http.MethodGet, pathFederate, nil)
			r.Header.Set("Accept", accept)
			controller := admission.New(admission.Options{})
			ctx, entry, err := controller.Begin(t.Context(), admission.Query{})
			if err != nil {
				t.Fatal(err)
			}
			x := &exchange{ctx: ctx, r: r, entry: entry, out: newEncoder(nowhere{http.Header{}})}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = x.expose(found)
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			took, paid := int64(after.TotalAlloc-before.TotalAlloc)/count, controller.Bytes()/count
			entry.End(nil)
			if took > paid {
				t.Errorf("%d labels, %s: a series takes %d bytes and pays %d", labelCount, accept, took, paid)
			}
		}
	}
}

// nowhere is a client that takes all.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}
