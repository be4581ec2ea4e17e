package influxql

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// put stores lines "measurement,tag=value field=1,field=2 2000-01-01T00:00:00Z" in a database.
func put(t testing.TB, m *scantest.Memory, database, lines string) {
	t.Helper()
	for line := range strings.SplitSeq(lines, "\n") {
		parts := strings.Fields(line)
		if len(parts) == 0 {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, parts[2])
		if err != nil {
			t.Fatal(err)
		}
		names := strings.Split(parts[0], ",")
		for field := range strings.SplitSeq(parts[1], ",") {
			name, text, _ := strings.Cut(field, "=")
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			var tags []series.Tag
			for _, tag := range names[1:] {
				k, v, _ := strings.Cut(tag, "=")
				tags = append(tags, series.Tag{Name: []byte(k), Value: []byte(v)})
			}
			if name != load.ValueField {
				tags = append(tags, series.Tag{Name: []byte(series.FieldTagName), Value: []byte(name)})
			}
			key := series.AppendKey(nil, []byte(database), []byte(names[0]), tags)
			if err := m.Put(key, series.Sample{TimeMs: at.UnixMilli(), Value: v}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// stored returns a memory with lines in the database db0.
func stored(t testing.TB, lines string) *scantest.Memory {
	t.Helper()
	m := scantest.NewMemory()
	put(t, m, "db0", lines)
	return m
}

// now is the clock of the tests.
func testClock() time.Time { return time.Date(2015, 1, 2, 0, 0, 0, 0, time.UTC) }

// get asks a handler by GET and returns the status and the body of its answer.
func get(t testing.TB, h http.Handler, query string, parameters ...string) (int, string) {
	t.Helper()
	form := url.Values{"q": {query}, "db": {"db0"}}
	for i := 0; i < len(parameters); i += 2 {
		form.Set(parameters[i], parameters[i+1])
	}
	w := httptest.NewRecorder()
	access.Open(h).ServeHTTP(w, httptest.NewRequest("GET", "/query?"+form.Encode(), nil))
	return w.Code, strings.TrimSuffix(w.Body.String(), "\n")
}

// post sends a request and returns its answer.
func post(h http.Handler, target, contentType, body string, header ...string) *http.Response {
	r := httptest.NewRequest("POST", target, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	access.Open(h).ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t testing.TB, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
