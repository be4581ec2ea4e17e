package opentsdb

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/guard"
)

// TestFiltersAreMeasured refuses expressions that are large once compiled, in one filter and in
// many, in each request that takes filters.
func TestFiltersAreMeasured(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("(a{1000})", 30)
	half := "(a{1000})(a{1000})(a{1000})"
	many := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"type":"regexp","tagk":"host","filter":%q},`, half), 10), ",")
	wild := strings.Repeat("a*", guard.RegexpSizeMax/8)
	countless := strings.TrimSuffix(strings.Repeat(`{"type":"literal_or","tagk":"host","filter":"a","groupBy":true},`, guard.TokensMax+1), ",")
	filter := func(kind, text string) string {
		return fmt.Sprintf(`{"type":%q,"tagk":"host","filter":%q}`, kind, text)
	}
	query := func(filters string) string {
		return `{"start":1,"queries":[{"aggregator":"sum","metric":"m","filters":[` + filters + `]}]}`
	}
	h := newServer(t)
	for name, c := range map[string]struct{ path, body string }{
		"regexp":          {"/api/query", query(filter("regexp", large))},
		"many":            {"/api/query", query(many)},
		"wildcard":        {"/api/query", query(filter("wildcard", wild))},
		"iwildcard":       {"/api/query", query(filter("iwildcard", wild))},
		"countless":       {"/api/query", query(countless)},
		"last":            {"/api/query/last", `{"queries":[{"metric":"m","tags":{"host":"regexp(` + large + `)"}}]}`},
		"last, together":  {"/api/query/last", `{"queries":[` + strings.TrimSuffix(strings.Repeat(`{"metric":"m","tags":{"host":"regexp(`+half+`)"}},`, 10), ",") + `]}`},
		"short form":      {"/api/query?start=1&m=" + "sum:m{host=regexp(" + large + ")}", ""},
		"query, together": {"/api/query", `{"start":1,"queries":[` + strings.TrimSuffix(strings.Repeat(`{"aggregator":"sum","metric":"m","filters":[`+filter("regexp", half)+`]},`, 10), ",") + `]}`},
	} {
		method := http.MethodPost
		if c.body == "" {
			method = http.MethodGet
		}
		if status, body := h.do(method, c.path, c.body); status != http.StatusBadRequest || !strings.Contains(body, guard.ErrTooLarge.Error()+":") {
			t.Error(name, status, body[:min(len(body), 300)])
		}
	}
	// What people write is let pass.
	names := strings.TrimSuffix(strings.Repeat("server-with-a-long-name-0001|", 1000), "|")
	for _, text := range []string{"^web[0-9]+$", names, ".*(a|b).*"} {
		if _, body := h.do(http.MethodPost, "/api/query", query(filter("regexp", text))); strings.Contains(body, guard.ErrTooLarge.Error()) {
			t.Error(text[:10], body)
		}
	}
}
