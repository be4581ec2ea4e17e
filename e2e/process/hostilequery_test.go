package process

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// TestNoQueryEndsTheProcess sends what once overflowed the stack, took minutes that nothing could
// end, or gigabytes: each is refused, and the process serves on and stops when it is told to.
func TestNoQueryEndsTheProcess(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--shutdown-timeout=3s")
	nested := func(open string, n int) string { return strings.Repeat(open, n) + "x" + strings.Repeat(")", n) }
	large := strings.Repeat("(a{1000})", 25<<10/9)
	filter, err := json.Marshal(large)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path, contentType, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url(path), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", contentType)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(path, err)
		}
		return answer.StatusCode, string(text)
	}
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct{ path, contentType, body string }{
		{"/api/v1/parse_query", form, "query=" + nested("ln(", 400_000)},
		{"/api/v1/query", form, "query=" + nested("ln(", 700_000)},
		{"/api/v1/format_query", form, "query=" + nested("abs(", 800_000)},
		{"/api/v1/parse_query", form, "query=" + nested("(", 100_000)},
		{"/api/v1/format_query", form, "query=" + nested("(", 2_000)},
		{"/api/v1/parse_query", form, `query={a=~"` + large + `"}`},
		{"/api/v1/series", form, `match[]={a=~"` + large + `"}`},
		{"/query", form, "q=SELECT x FROM m WHERE a =~ /" + large + "/"},
		{"/query", form, "q=SELECT " + nested("(", 400_000) + " FROM m"},
		{"/query", form, "q=" + strings.Repeat("SELECT x FROM (", 100_000)},
		{"/api/query", "application/json", `{"start":1,"queries":[{"aggregator":"sum","metric":"m","filters":[{"type":"regexp","tagk":"a","filter":` + string(filter) + `}]}]}`},
		{"/api/query", "application/json", strings.Repeat("[", 1_000_000)},
	} {
		if status, body := ask(c.path, c.contentType, c.body); status != http.StatusBadRequest {
			t.Errorf("%s %.60q: %d %.200s", c.path, c.body, status, body)
		}
	}
	for _, path := range []string{"/api/v1/parse_query", "/api/v1/format_query", "/api/v1/query"} { // 1,000 terms are taken
		if status, body := ask(path, form, "query="+strings.Repeat("x%2B", 999)+"x"); status != http.StatusOK {
			t.Errorf("%s: %d %.200s", path, status, body)
		}
	}
	s.signal(syscall.SIGTERM)
	if state := s.wait(); state.ExitCode() != 0 {
		t.Error(state)
	}
}
