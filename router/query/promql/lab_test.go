package promql

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/value"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// labMs is the time of the lab: 2025-06-15T15:06:40Z.
const labMs = 1_750_000_000_000

// put writes samples a minute apart, the last one at labMs. Tags come as name, value, …
func put(t testing.TB, m *scantest.Memory, database, metric string, values []float64, tags ...string) {
	t.Helper()
	var list []series.Tag
	for i := 0; i < len(tags); i += 2 {
		list = append(list, series.Tag{Name: []byte(tags[i]), Value: []byte(tags[i+1])})
	}
	key := series.AppendKey(nil, []byte(database), []byte(metric), list)
	for i, v := range values {
		if err := m.Put(key, series.Sample{TimeMs: labMs - int64(len(values)-1-i)*60_000, Value: v}); err != nil {
			t.Fatal(err)
		}
	}
}

// newLab is a little data of every kind that there is.
func newLab(t testing.TB) *scantest.Memory {
	m := scantest.NewMemory()
	stale := math.Float64frombits(value.StaleNaN)
	put(t, m, "", "up", []float64{1, 1, 0, 1, 1}, "job", "node", "instance", "a:9100")
	put(t, m, "", "up", []float64{1, 1, 1, 1, stale}, "job", "node", "instance", "b:9100")
	put(t, m, "", "requests_total", []float64{0, 60, 120, 30, 90}, "job", "api", "code", "200")
	put(t, m, "", "requests_total", []float64{0, 6, 12, 18, 24}, "job", "api", "code", "500")
	put(t, m, "", "cpu.load", []float64{0.5, math.NaN(), math.Inf(1), math.Inf(-1), 1e-7}, "host", "ä \"quoted\"\n", "_field", "idle", "Zone", "eu")
	put(t, m, "", "lonely", []float64{7})
	put(t, m, "", "odd", []float64{7}, "empty", "", "__name__", "other")
	put(t, m, "other", "up", []float64{42}, "job", "elsewhere")
	return m
}

func labOptions(t testing.TB) Options {
	return Options{Source: newLab(t), Clock: func() time.Time { return time.UnixMilli(labMs) }, Build: Build{GoVersion: "go"}, Parallel: 3}
}

// answered is what a request got.
type answered struct {
	status int
	body   string
	header http.Header
}

// get asks by GET; target is below /api/v1/.
func get(h http.Handler, target string) answered {
	return do(h, httptest.NewRequest(http.MethodGet, pathPrefix+target, nil))
}

// post asks by a form in the body.
func post(h http.Handler, path string, form url.Values) answered {
	r := httptest.NewRequest(http.MethodPost, pathPrefix+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
	return do(h, r)
}

func do(h http.Handler, r *http.Request) answered {
	w := httptest.NewRecorder()
	access.Open(h).ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Result().Body) // of a recorder: it does not fail
	return answered{w.Code, string(body), w.Header()}
}
