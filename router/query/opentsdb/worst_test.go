package opentsdb

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/guard"
)

type worstRequest struct{ path, body string }

// worstRequests are the shapes that cost the most, each as large as bodies and the guard let pass.
func worstRequests() map[string]worstRequest {
	const bodyMax = 4<<20 - 1000
	fill := func(one string) string { return strings.TrimSuffix(strings.Repeat(one, bodyMax/len(one)), ",") }
	times := func(one string, n int) string { return strings.TrimSuffix(strings.Repeat(one, n), ",") }
	numbered := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	filters := func(list string) worstRequest {
		return worstRequest{"/api/query", fmt.Sprintf(`{"start":%d,"queries":[{"aggregator":"sum","metric":"m","filters":[%s]}]}`, t0, list)}
	}
	filter := func(kind, text string) worstRequest {
		return filters(fmt.Sprintf(`{"type":%q,"tagk":"host","filter":%q}`, kind, text))
	}
	sub := func(field string) worstRequest {
		return worstRequest{"/api/query", fmt.Sprintf(`{"start":%d,"queries":[{"aggregator":"sum","metric":"m",%s}]}`, t0, field)}
	}
	return map[string]worstRequest{
		"empty queries":      {"/api/query", `{"start":1,"queries":[` + fill("{},") + `]}`},
		"null queries":       {"/api/query", `{"start":1,"queries":[` + fill("0,") + `]}`},
		"empty last":         {"/api/query/last", `{"queries":[` + fill("{},") + `]}`},
		"lookup tags":        {"/api/search/lookup", `{"metric":"m","tags":[` + fill("{},") + `]}`},
		"empty filters":      filters(fill("{},")),
		"groups":             filters(numbered(`{"type":"literal_or","tagk":"name-of-tag-%d","filter":"a","groupBy":true},`, guard.TokensMax)),
		"keys":               filters(times(`{"type":"not_key","tagk":"h","filter":""},`, guard.TokensMax)),
		"tags":               sub(`"tags":{` + numbered(`"tag-%d":"*",`, guard.TokensMax) + `}`),
		"many tags":          sub(`"tags":{` + numbered(`"tag-%d":"*",`, bodyValuesMax+1) + `}`),
		"same tags":          sub(`"tags":{` + fill(`"a":"b",`) + `}`),
		"tsuids":             sub(`"tsuids":[` + fill(`"00016D01610162",`) + `]`),
		"empty tsuids":       sub(`"tsuids":[` + fill(`"",`) + `]`),
		"percentiles":        sub(`"percentiles":[` + fill("1,") + `]`),
		"nested":             {"/api/query", `{"x":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}`},
		"fields":             {"/api/query", `{` + fill(`"a":0,`) + `}`},
		"flags":              {"/api/query", `{` + fill(`"ms":0,`) + `}`},
		"texts":              {"/api/query", `{` + fill(`"start":"\u0041",`) + `}`},
		"literals":           filter("literal_or", strings.Repeat("a|", bodyMax/2)),
		"literals, any case": filter("iliteral_or", strings.Repeat("a|", bodyMax/2)),
		"no literals":        filter("not_literal_or", strings.Repeat("|", bodyMax)),
		"wildcard":           filter("wildcard", strings.Repeat("a*", guard.RegexpSizeMax/9)),
		"any case":           filter("iwildcard", strings.Repeat("a*", guard.RegexpSizeMax/10)),
		"long wildcard":      filter("iwildcard", "*"+strings.Repeat("a", guard.RegexpSizeMax-20)),
		"repetitions":        filter("regexp", strings.Repeat("(?:a{1000})", 24)),
		"optional":           filter("regexp", strings.Repeat("(?:a{0,1000})", 12)),
		"loops":              filter("regexp", strings.Repeat("(?:.*a)*", 4_990)),
		"alternatives":       filter("regexp", strings.Repeat("abcdefgh|", 8_300)+"a"),
		"classes":            filter("regexp", strings.Repeat(`\pL`, 100)),
		"folded":             filter("regexp", "(?i)"+strings.Repeat(`[B-\x{1e942}]`, 2)),
		"many expressions":   filters(times(`{"type":"regexp","tagk":"host","filter":"a.*b"},`, 4_000)),
		"many classes":       filters(times(`{"type":"regexp","tagk":"host","filter":"\\pL\\pL\\pL\\pL\\pL\\pL"},`, 300)),
		"downsample":         sub(`"downsample":"` + strings.Repeat("1", bodyMax) + `m-avg"`),
		"dashes":             sub(`"downsample":"1m` + strings.Repeat("-avg", bodyMax/4) + `"`),
		"zone":               {"/api/query", fmt.Sprintf(`{"start":%d,"timezone":"%s","queries":[{"aggregator":"sum","metric":"m"}]}`, t0, strings.Repeat("a", bodyMax))},
		"calendar":           {"/api/query", `{"start":1,"useCalendar":true,"timezone":"Europe/Berlin","queries":[` + times(`{"aggregator":"sum","metric":"m","downsample":"1dc-sum-zero"},`, 256) + `]}`},
		"last":               {"/api/query/last", `{"queries":[` + times(`{"metric":"m","tags":{"host":"*"}},`, 4_000) + `]}`},
		"lasting tsuids":     {"/api/query/last", `{"queries":[{"tsuids":[` + fill(`"00016D01610162",`) + `]}]}`},
		"short form":         {"/api/query?start=1&m=sum:m{" + numbered("tag%d=a,", 20_000) + "}", ""},
		"short forms":        {"/api/query?start=1" + numbered("&m=sum:m%d", 9_000), ""},
		"brackets":           {"/api/query?start=1&m=sum:m" + strings.Repeat("{", 100_000), ""},
	}
}

// TestWorstBodiesAreRefused: a body of many values takes little before it is refused, and one at
// the limit is let pass.
func TestWorstBodiesAreRefused(t *testing.T) {
	t.Parallel()
	h, all := grafanaServer(t), worstRequests()
	for _, name := range []string{"empty queries", "null queries", "empty last", "lookup tags", "empty filters", "many tags", "same tags", "tsuids",
		"empty tsuids", "percentiles", "lasting tsuids", "literals", "literals, any case", "no literals"} {
		if status, body := h.do("POST", all[name].path, all[name].body); status != http.StatusBadRequest || !strings.Contains(body, guard.ErrTooLarge.Error()+":") {
			t.Errorf("%s: %d %.200s", name, status, body)
		}
	}
	for body, fits := range map[string]bool{
		"[" + strings.Repeat("0,", bodyValuesMax-1) + "0]": true, "[" + strings.Repeat("0,", bodyValuesMax) + "0]": false,
		`{"a\\":"` + strings.Repeat(`,{[\"`, bodyValuesMax) + `"}`: true, `{"a\\":` + strings.Repeat(",", bodyValuesMax) + `}`: false,
	} {
		if err := measureJSON([]byte(body)); (err == nil) != fits {
			t.Errorf("%.30s: %v", body, err)
		}
	}
}

// userTime returns the CPU time that the process has taken outside the kernel.
func userTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}

// stopAfter is when clients of BenchmarkWorst give up: what a query takes beyond it, nobody can stop.
const stopAfter = 10 * time.Millisecond

// BenchmarkWorst shows what the worst requests cost that are let pass, where the client gives up at
// once.
func BenchmarkWorst(b *testing.B) {
	h := access.Open(grafanaServer(b).handler)
	for name, request := range worstRequests() {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			began := userTime(b)
			for b.Loop() {
				method := "POST"
				if request.body == "" {
					method = "GET"
				}
				ctx, cancel := context.WithTimeout(b.Context(), stopAfter)
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, method, request.path, strings.NewReader(request.body)))
				cancel()
			}
			b.ReportMetric(float64((userTime(b)-began).Microseconds())/1000/float64(b.N), "user-ms/op")
		})
	}
}
