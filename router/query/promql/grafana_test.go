package promql

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/router/metadata"
)

// TestGrafana makes every call that Grafana's data source of type Prometheus makes, as its
// backend does (grafana/pkg/promlib: client, resource, healthcheck, heuristics): by POST
// with a form, or by GET where it is set so or where it knows that only that is served; a
// POST that gets 400 or 405 is repeated as a GET.
func TestGrafana(t *testing.T) {
	o := labOptions(t)
	var c metadata.Catalog
	c.KeepMetadata(nil, []byte("up"), "gauge", []byte("Is it?"), nil)
	o.Metadata = &c
	h := New(o)
	const start, end = "1749999760", "1750000000"
	for _, call := range []struct {
		what, path string
		form       url.Values
		want       []string // in the data
	}{
		{"health", "query", url.Values{"query": {"1+1"}, "time": {"4"}}, []string{`{"resultType":"scalar","result":[4,"2"]}`}},
		{"panel", "query_range", url.Values{"query": {"up"}, "start": {start}, "end": {end}, "step": {"60"}, "timeout": {"30s"}}, []string{`"resultType":"matrix"`, `"values":[[1749999760,"1"]`}},
		{"panel of half seconds", "query_range", url.Values{"query": {"up"}, "start": {"1749999760.5"}, "end": {"1749999761"}, "step": {"0.5"}}, []string{`[1749999760.500,"1"],[1749999761,"1"]`}},
		{"instant", "query", url.Values{"query": {`sum by(job) (up)`}, "time": {"1750000000.123"}}, []string{`"resultType":"vector"`, `[1750000000.123,"1"]`}},
		{"exemplars", "query_exemplars", url.Values{"query": {"up"}, "start": {start}, "end": {end}}, []string{`[]`}},
		{"metrics", "label/__name__/values", url.Values{"start": {start}, "end": {end}, "limit": {"40000"}}, []string{`"up"`}},
		{"metrics of a selector", "label/__name__/values", url.Values{"start": {start}, "end": {end}, "match[]": {`{job="api"}`}}, []string{`["requests_total"]`}},
		{"label keys", "labels", url.Values{"start": {start}, "end": {end}, "match[]": {`{__name__="up"}`}, "limit": {"40000"}}, []string{`["__name__","instance","job"]`}},
		{"label values", "label/instance/values", url.Values{"start": {start}, "end": {end}, "match[]": {`up{job="node"}`}}, []string{`["a:9100","b:9100"]`}},
		{"label values, UTF-8", "label/U__Zone/values", url.Values{"match[]": {`{"cpu.load"}`}}, []string{`["eu"]`}},
		{"series", "series", url.Values{"start": {start}, "end": {end}, "match[]": {`up`}, "limit": {"40000"}}, []string{`"instance":"b:9100"`}},
		{"metadata", "metadata", url.Values{"limit": {"40000"}}, []string{`{"up":[{"type":"gauge","unit":"","help":"Is it?"}]}`}},
		{"version", "status/buildinfo", nil, []string{`"version":"3.`}},
		{"rules", "rules", nil, []string{`{"groups":[]}`}},
		{"alerts", "alerts", nil, []string{`{"alerts":[]}`}},
		{"scrape interval", "status/config", nil, []string{`{"yaml":""}`}},
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			got := callAsGrafana(h, method, call.path, call.form)
			var answer struct {
				Status string
				Data   json.RawMessage
			}
			if err := json.Unmarshal([]byte(got.body), &answer); err != nil || got.status != http.StatusOK || answer.Status != "success" {
				t.Errorf("%s by %s: %d %s", call.what, method, got.status, got.body)
				continue
			}
			for _, want := range call.want {
				if !strings.Contains(string(answer.Data), want) {
					t.Errorf("%s by %s: %s has no %s", call.what, method, answer.Data, want)
				}
			}
			if strings.Contains(string(answer.Data), "features") {
				t.Errorf("%s: Grafana takes a server with features for Mimir", call.what)
			}
		}
	}
}

func callAsGrafana(h http.Handler, method, path string, form url.Values) answered {
	if method == http.MethodPost {
		if got := post(h, path, form); got.status != http.StatusMethodNotAllowed && got.status != http.StatusBadRequest {
			return got
		}
	}
	return do(h, httptest.NewRequest(http.MethodGet, pathPrefix+path+"?"+form.Encode(), nil))
}
