package influxql

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
)

// TestDiagnostics: what the process says of itself has InfluxDB's names, and is for administrators of the whole.
func TestDiagnostics(t *testing.T) {
	h := New(Options{Source: stored(t, ""), Build: Build{Version: "1.2.3", Revision: "abc", Date: "today", Started: time.Now().Add(-time.Minute)}})
	type row struct {
		Name    string   `json:"name"`
		Columns []string `json:"columns"`
		Values  [][]any  `json:"values"`
	}
	ask := func(statement string) (series []row) {
		t.Helper()
		var body struct {
			Results []struct {
				Series []row  `json:"series"`
				Error  string `json:"error"`
			} `json:"results"`
		}
		if err := json.Unmarshal([]byte(bodyOf(t, post(h, "/query", "", "q="+statement))), &body); err != nil {
			t.Fatal(err)
		}
		if len(body.Results) != 1 || body.Results[0].Error != "" {
			t.Fatalf("%s: %+v", statement, body)
		}
		for _, s := range body.Results[0].Series {
			if len(s.Values) != 1 || len(s.Values[0]) != len(s.Columns) {
				t.Errorf("%s: %+v", statement, s)
			}
		}
		return body.Results[0].Series
	}
	all := ask("SHOW+DIAGNOSTICS")
	if names := []string{"build", "network", "runtime", "system"}; len(all) != len(names) || !slices.EqualFunc(all, names, func(r row, name string) bool { return r.Name == name }) {
		t.Fatalf("%+v", all)
	}
	if want := []any{"today", "abc", "1.2.3"}; !slices.Equal(all[0].Values[0], want) {
		t.Errorf("%+v", all[0])
	}
	if one := ask("SHOW+DIAGNOSTICS+FOR+'runtime'"); len(one) != 1 || !slices.Equal(one[0].Columns, []string{"GOARCH", "GOMAXPROCS", "GOOS", "version"}) || one[0].Values[0][3] != runtime.Version() {
		t.Errorf("%+v", one)
	}
	if stats := ask("SHOW+STATS"); len(stats) != 1 || stats[0].Name != "runtime" || stats[0].Values[0][slices.Index(stats[0].Columns, "HeapAlloc")].(float64) <= 0 {
		t.Errorf("%+v", stats)
	}
	if none := ask("SHOW+STATS+FOR+'httpd'"); len(none) != 0 {
		t.Errorf("%+v", none)
	}
	for _, statement := range []string{"SHOW+DIAGNOSTICS", "SHOW+STATS"} {
		r := httptest.NewRequestWithContext(access.With(t.Context(), reader{}), http.MethodGet, "/query?db=db0&q="+statement, nil)
		w := httptest.NewRecorder()
		if access.Open(h).ServeHTTP(w, r); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d %s", statement, w.Code, w.Body)
		}
	}
}
