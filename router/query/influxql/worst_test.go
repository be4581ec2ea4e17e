package influxql

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/guard"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// worstStatements are the shapes that cost the most for what the guard counts, each as large as
// it lets pass.
func worstStatements() map[string]string {
	const operators, tokens = guard.OperatorsMax, guard.TokensMax - 64
	chain := func(link, last string, n int) string { return strings.Repeat(link, n) + last }
	deep := func(open, last, close string, n int) string {
		return strings.Repeat(open, n) + last + strings.Repeat(close, n)
	}
	where := func(condition string) string { return "SELECT f1 FROM m WHERE " + condition }
	return map[string]string{
		"terms":               "SELECT " + chain("f1 + ", "f1", operators) + " FROM m",
		"numbers":             "SELECT f1 + " + chain("1 + ", "1", operators-1) + " FROM m",
		"texts":               where(chain("'a' + ", "'a'", operators-1) + " = host"),
		"signs":               "SELECT " + chain("-", "f1", operators) + " FROM m",
		"brackets":            "SELECT " + deep("(", "f1", ")", guard.DepthMax) + " FROM m",
		"terms in brackets":   "SELECT " + deep("(f1 + ", chain("f1 + ", "f1", operators-guard.DepthMax), ")", guard.DepthMax) + " FROM m",
		"functions":           "SELECT " + deep("abs(", "f1", ")", guard.DepthMax) + " FROM m",
		"functions of terms":  "SELECT " + deep("abs(", chain("f1 + ", "f1", operators), ")", guard.DepthMax) + " FROM m",
		"conjunctions":        where(chain("host = 'a' AND ", "host = 'a'", operators/2)),
		"unions of tags":      where(chain("host = 'a' OR ", "host = 'a'", operators/2)),
		"unions of fields":    where(chain("f1 = 1 OR ", "f1 = 1", operators/2)),
		"unions in brackets":  where(deep("(host = 'a' OR ", chain("host = 'a' OR ", "host = 'a'", operators/2-guard.DepthMax), ")", guard.DepthMax)),
		"times":               where(chain("time > 0 AND ", "time > 0", operators/2)),
		"times of sums":       where("time > " + chain("1s + ", "0s", operators-1)),
		"times in brackets":   where(deep("(time > 0 AND ", "f1 = 1", ")", guard.DepthMax)),
		"fields":              "SELECT " + chain("f1,", "f1", tokens/2-10) + " FROM m",
		"wildcards":           "SELECT " + chain("*,", "*", tokens/2-10) + " FROM m",
		"expressions":         "SELECT " + chain("/f/,", "/f/", tokens/2-10) + " FROM m",
		"means of all":        "SELECT " + chain("mean(*),", "mean(*)", tokens/5-10) + " FROM m",
		"groups":              "SELECT f1 FROM m GROUP BY " + chain("host,", "host", tokens/2-10),
		"groups of all":       "SELECT f1 FROM m GROUP BY " + chain("*,", "*", tokens/2-10),
		"sources":             "SELECT f1 FROM " + chain("m,", "m", tokens/2-10),
		"sources by name":     "SELECT f1 FROM " + chain("/m/,", "/m/", tokens/2-10),
		"subqueries":          deep("SELECT f1 FROM (", "SELECT f1 FROM m", ")", 16),
		"subqueries of all":   deep("SELECT *,* FROM (", "SELECT *,* FROM m", ")", 16),
		"subqueries of many":  deep("SELECT "+chain("*,", "*", 100)+" FROM (", "SELECT * FROM m", ")", 16),
		"subqueries of names": deep("SELECT /f/,/f/ FROM (", "SELECT /f/ FROM m", ")", 16),
		"trees of subqueries": "SELECT f1 FROM " + chain("(SELECT f1 FROM m),", "(SELECT f1 FROM m)", tokens/9),
		"statements":          chain("SELECT f1 FROM m;", "SELECT f1 FROM m", 99),
		"too many statements": chain("SHOW DATABASES;", "SHOW DATABASES", tokens/3),
		"repetitions":         where("host =~ /" + strings.Repeat("(?:a{1000})", 24) + "/"),
		"optional":            where("host =~ /" + strings.Repeat("(?:a{0,1000})", 12) + "/"),
		"loops":               where("host =~ /" + strings.Repeat("(?:.*a)*", 4_990) + "/"),
		"literals":            where("host =~ /" + chain("abcdefgh|", "a", 8_300) + "/"),
		"literals in loops":   where("host =~ /.*(" + chain("abcdefgh|", "a", 8_300) + ").*/"),
		"lists":               where("host =~ /^" + strings.Repeat("(a|b|c|d|e|f|g|h|i|j)", 4) + "$/"),
		"lists of lists":      where("host =~ /^(" + chain("(a|b)(c|d)(e|f)(g|h)(i|j)|", "a", 800) + ")$/"),
		"many lists":          where(chain("host =~ /^[a-j][a-j][a-j][a-j]$/ AND ", "f1 = 1", 400)),
		"long lists":          where(chain("host =~ /^"+strings.Repeat("a", 100)+"[a-j][a-j][a-j][a-j]$/ AND ", "f1 = 1", 400)),
		"classes":             where("host =~ /" + strings.Repeat(`\pL`, 100) + "/"),
		"folded":              where("host =~ /(?i)" + strings.Repeat(`[B-\x{1e942}]`, 2) + "/"),
		"many classes":        where(chain(`host =~ /\pL\pL\pL\pL/ AND `, "f1 = 1", 400)),
		"long text":           where("host = '" + strings.Repeat("a", guard.TextBytesMax-100) + "'"),
		"passwords":           strings.Repeat("with password ", guard.TextBytesMax/14-10),
		"spaces":              "SELECT" + strings.Repeat(" ", guard.TextBytesMax-100) + "f1 FROM m",
		"comments":            "SELECT " + strings.Repeat("/**/", guard.TextBytesMax/4-20) + "f1 FROM m",
		"lines":               "SELECT f1 FROM m" + strings.Repeat("\n", guard.TextBytesMax-100),
		"quotes":              where("host = '" + strings.Repeat(`\'`, guard.TextBytesMax/2-100) + "'"),
		"bad character":       strings.Repeat("\xff", guard.TextBytesMax-10),
		"zone":                "SELECT f1 FROM m tz('" + strings.Repeat("a", guard.TextBytesMax-100) + "')",
		"keys":                "SHOW TAG VALUES WITH KEY IN (" + chain("a,", "a", tokens/2-20) + ")",
		"keys by fields":      "SHOW TAG VALUES WITH KEY IN (" + chain("a,", "a", tokens/2-20) + ") WHERE host = 'a'",
	}
}

// worstLines is a measurement of 301 fields.
func worstLines() string {
	var b strings.Builder
	for host := range 3 {
		fmt.Fprintf(&b, "m,host=%c ", 'a'+host)
		for i := range 300 {
			fmt.Fprintf(&b, "f%d=1,", i)
		}
		b.WriteString("z=1 2000-01-01T00:00:00Z\n")
	}
	return b.String()
}

// TestManyColumnsAreRefused has a statement on each side of the limit of columns.
func TestManyColumnsAreRefused(t *testing.T) {
	t.Parallel()
	h := New(Options{Source: stored(t, worstLines()), Clock: testClock})
	stars := func(one string, n int) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	deep := strings.Repeat("SELECT mean(*),max(*) FROM (", 15) + "SELECT f1 FROM m" + strings.Repeat(")", 15)
	for text, fits := range map[string]bool{
		"SELECT " + stars("*", 160) + " FROM m LIMIT 1":     true,
		"SELECT " + stars("*", 170) + " FROM m LIMIT 1":     false,
		"SELECT " + stars("/f/", 4000) + " FROM m":          false,
		"SELECT " + stars("mean(*)", 1000) + " FROM m":      false,
		"SELECT " + stars("abs(mean(*))", 1000) + " FROM m": false,
		deep: true,
		strings.Replace(deep, "SELECT f1", "SELECT *", 1):            false,
		"SELECT * FROM (" + "SELECT " + stars("*", 200) + " FROM m)": false,
		"SELECT " + stars("f1", 4000) + " FROM m LIMIT 1":            true,
	} {
		if _, body := get(t, h, text); strings.Contains(body, guard.ErrTooLarge.Error()+":") == fits {
			t.Errorf("%.60s: %.200s", text, body)
		}
	}
}

// TestListsOfTextsAreBounded: what expressions list is in proportion to the query's text.
func TestListsOfTextsAreBounded(t *testing.T) {
	t.Parallel()
	for pattern, listed := range map[string]bool{
		"^(a|b)$": true, "^server[0-9][0-9]$": true, "^(" + strings.Repeat("server-with-a-name|", 2000) + "a)$": true,
		"^[a-j][a-j][a-j][a-j]$": false, "^" + strings.Repeat("a", 100) + "[a-j][a-j][a-j][a-j]$": false,
	} {
		if texts, ok := load.TextsOf(pattern); ok != listed {
			t.Errorf("%.30s: %d texts, %v", pattern, len(texts), ok)
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

// BenchmarkWorst shows what the worst texts cost that are let pass, where the client gives up at once.
func BenchmarkWorst(b *testing.B) {
	h := access.Open(New(Options{Source: stored(b, worstLines()), Clock: testClock}))
	for name, text := range worstStatements() {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			began := userTime(b)
			for b.Loop() {
				d := &discard{header: map[string][]string{}}
				ctx, cancel := context.WithTimeout(b.Context(), stopAfter)
				r := httptest.NewRequestWithContext(ctx, "POST", "/query?db=db0", strings.NewReader(url.Values{"q": {text}}.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				h.ServeHTTP(d, r)
				cancel()
			}
			b.ReportMetric(float64((userTime(b)-began).Microseconds())/1000/float64(b.N), "user-ms/op")
		})
	}
}
