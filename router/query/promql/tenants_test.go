package promql

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// getJoined asks where names may be of several databases.
func getJoined(h http.Handler, target, names string) answered {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set(access.DatabaseHeader, names)
	return do(h, r.WithContext(access.WithPlace(r.Context(), access.Place{Joined: true})))
}

// tenantLab fills two databases and the default one with series of which some have equal labels; whole has all of them in one
// database, with the tag that they are to have. Another database is nobody's business.
func tenantLab(t *testing.T) (apart, whole *scantest.Memory) {
	t.Helper()
	apart, whole = scantest.NewMemory(), scantest.NewMemory()
	for i, database := range []string{"a", "b", "", "other"} {
		for n, metric := range []string{"requests_total", "up", "only_" + access.Display(database)} {
			for host := range 3 {
				for k := range 60 {
					tags := []string{"host", fmt.Sprint("h", host), "n", fmt.Sprint(i)}
					if n == 1 {
						tags = tags[:2]
					}
					sample := series.Sample{TimeMs: pairMs + int64(k)*pairStepMs, Value: float64((k*(host+1) + i*7) % 41)}
					putSample(t, apart, scantest.Key(database, metric, tags...), sample)
					if database != "other" {
						putSample(t, whole, scantest.Key("", metric, append(tags, tenantLabel, access.Display(database))...), sample)
					}
				}
			}
		}
	}
	// A tag of the name gives way.
	putSample(t, apart, scantest.Key("b", "odd", tenantLabel, "a"), series.Sample{TimeMs: pairMs, Value: 1})
	putSample(t, whole, scantest.Key("", "odd", tenantLabel, "b"), series.Sample{TimeMs: pairMs, Value: 1})
	return apart, whole
}

// inOrder returns an answer with the series of its vector sorted, which have no order.
func inOrder(t *testing.T, body string) string {
	t.Helper()
	var answer struct {
		Data json.RawMessage
	}
	var vector struct {
		ResultType string
		Result     []json.RawMessage
	}
	if json.Unmarshal([]byte(body), &answer) != nil || json.Unmarshal(answer.Data, &vector) != nil || vector.ResultType != "vector" {
		return body
	}
	slices.SortFunc(vector.Result, func(a, b json.RawMessage) int { return bytes.Compare(a, b) })
	return fmt.Sprintf("%s", vector.Result)
}

// TestTenants: several databases are answered as one whose series have the tag.
func TestTenants(t *testing.T) {
	apart, whole := tenantLab(t)
	clock := func() time.Time { return time.UnixMilli(pairMs + 60*pairStepMs) }
	several, one := New(Options{Source: apart, Clock: clock}), New(Options{Source: whole, Clock: clock})
	span := fmt.Sprintf("&start=%d&end=%d&step=30", pairMs/1000, pairMs/1000+900)
	targets := []string{
		"labels?x=y", "labels?match[]=up", "label/host/values?x=y", "label/" + tenantLabel + "/values?x=y", "label/__name__/values?x=y", "label/__name__/values?match[]={n=\"1\"}",
		"label/" + tenantLabel + "/values?match[]=only_a", "label/" + tenantLabel + "/values?match[]={host=\"h1\"}", "series?match[]=up", "series?match[]={__name__=~\"only_.*\"}&match[]=odd",
		"export?match[]=odd",
	}
	for _, query := range []string{
		"up", `up{__tenant_id__="a"}`, `up{__tenant_id__=~"a|default"}`, `up{__tenant_id__!="a"}`, `up{__tenant_id__="other"}`, `{__name__=~"only_.+"}`, "rate(requests_total[5m])",
		"sum by (__tenant_id__) (rate(requests_total[2m]))", "count(up)", "count by (host) (up)", "max without (__tenant_id__) (up)", "group(up)", "min(requests_total)",
		"quantile_over_time(0.9, up[5m])", `up{__tenant_id__="a"} - on (host) up{__tenant_id__="b"}`, "max_over_time(sum(up)[5m:1m])", "absent(none)", "last_over_time(up[5m])",
	} {
		targets = append(targets, "query_range?query="+url.QueryEscape(query)+span, "query?query="+url.QueryEscape(query)+"&time="+fmt.Sprint(pairMs/1000+600))
	}
	for _, target := range targets {
		target = pathPrefix + strings.NewReplacer("{", "%7B", "}", "%7D", `"`, "%22").Replace(target)
		got, want := getJoined(several, target, "b|a|default|a"), do(one, httptest.NewRequest(http.MethodGet, target, nil))
		if got.status != http.StatusOK || inOrder(t, got.body) != inOrder(t, want.body) {
			t.Errorf("%s: %d\n%.500s\nwant\n%.500s", target, got.status, got.body, want.body)
		}
	}
	target := pathFederate + "?match[]=up"
	if got, want := getJoined(several, target, "a|b|default"), do(one, httptest.NewRequest(http.MethodGet, target, nil)); got.body != want.body || !strings.Contains(got.body, tenantLabel) {
		t.Errorf("%s: %s\nwant\n%s", target, got.body, want.body)
	}
	if got := getJoined(several, pathPrefix+"labels", "a|a"); strings.Contains(got.body, tenantLabel) {
		t.Errorf("one database: %s", got.body)
	}
}

// TestTenantsRefused: each of several databases has its rights and limits, and not every question is for several.
func TestTenantsRefused(t *testing.T) {
	apart, _ := tenantLab(t)
	control := admission.New(admission.Options{LimitsOf: func(database string) admission.Limits {
		return map[string]admission.Limits{"b": {SeriesMax: 2}}[database]
	}})
	h := New(Options{Source: control.Source(apart), Admission: control})
	for target, want := range map[string]int{
		"query?query=up&time=1750000500": 422, "status/tsdb": 400, "rules": 400, "alerts": 400, "query?query=1&db=a": 400, "metadata": 200, "query?query=1": 200,
	} {
		if got := getJoined(h, pathPrefix+target, "a|b"); got.status != want {
			t.Errorf("%s: %d %s, want %d", target, got.status, got.body, want)
		}
	}
	for _, names := range []string{"a|", "|", "a||b", strings.Repeat("a|", 64) + "a"} {
		if got := getJoined(h, pathPrefix+"query?query=1", names); got.status != 400 {
			t.Errorf("%s: %d %s", names, got.status, got.body)
		}
	}
	for names, want := range map[string]int{"mine|b": 403, "b|mine": 403, "mine|mine": 200} {
		r := httptest.NewRequest(http.MethodGet, pathPrefix+"query?query=up", nil)
		r.Header.Set(access.DatabaseHeader, names)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(access.WithPlace(access.With(r.Context(), only("mine")), access.Place{Joined: true})))
		if w.Code != want {
			t.Errorf("%s: %d %s", names, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodGet, pathPrefix+"query?query=up", nil) // where it is off, it is one name
	r.Header.Set(access.DatabaseHeader, "a|b")
	if got := do(h, r); got.status != 200 || !strings.HasSuffix(strings.TrimSpace(got.body), `"result":[]}}`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestTenantsSameLabels: series that only the label that gives way told apart are not taken for one.
func TestTenantsSameLabels(t *testing.T) {
	m := scantest.NewMemory()
	for k := range 3 {
		for _, own := range []string{"x", "y"} {
			putSample(t, m, scantest.Key("a", "m", tenantLabel, own), series.Sample{TimeMs: pairMs + int64(k)*1000, Value: float64(k)})
		}
	}
	h := New(Options{Source: m})
	for _, query := range []string{"rate(m[5m])", "sum(rate(m[5m]))", "m[5m]"} {
		got := getJoined(h, pathPrefix+"query?time="+fmt.Sprint(pairMs/1000+3)+"&query="+url.QueryEscape(query), "a|b")
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, errSameLabels.Error()) {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	if got := getJoined(h, pathPrefix+"series?match[]=m", "a|b"); got.status != http.StatusOK || strings.Count(got.body, `"__name__"`) != 1 {
		t.Errorf("%d %s", got.status, got.body)
	}
}
