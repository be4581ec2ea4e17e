package opentsdbdiff

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
)

// question is a request.
type question struct {
	Kind   string `json:"kind"`
	Method string `json:"method"`
	Target string `json:"target"`
	Body   string `json:"body,omitempty"`
}

func (q *question) String() string {
	target, err := url.QueryUnescape(q.Target)
	if err != nil {
		target = q.Target
	}
	return strings.TrimSpace(q.Method + " " + target + " " + q.Body)
}

// maker makes random queries.
type maker struct{ *rand.Rand }

func (m maker) one(of ...string) string { return of[m.IntN(len(of))] }

func (m maker) chance(percent int) bool { return m.IntN(100) < percent }

func (m maker) metric() string {
	return m.one("dbl", "dbl", "dbl", "whole", "gaps", "fine", "counter", "mixed")
}

func (m maker) aggregator() string {
	return m.one("sum", "sum", "min", "max", "avg", "count", "dev", "median", "zimsum", "mimmin", "mimmax", "mult", "squareSum", "first", "last",
		"diff", "none", "pfsum", "p50", "p90", "p999", "ep75r3", "ep95r7")
}

func (m maker) downsample() string {
	function := m.one("sum", "min", "max", "avg", "count", "dev", "median", "zimsum", "mimmax", "mult", "squareSum", "first", "last", "diff", "p75", "p99")
	return m.one("1m", "5m", "7m", "15m", "1h", "10m", "2h", "0all", "30m", "1dc", "1hc") + "-" + function +
		m.one("", "", "", "-none", "-nan", "-null", "-zero")
}

func (m maker) rate() string {
	return m.one("rate", "rate", "rate{counter}", "rate{counter,500}", "rate{counter,500,1}", "rate{dropcounter}", "rate{counter,,2}")
}

// filters returns what stands in the braces after a metric, of which there may be two.
func (m maker) filters() string {
	one := func() string {
		return m.one("host=a", "host=*", "host=a|b", "dc=x", "dc=*", "host=literal_or(a|c)", "host=iliteral_or(A|b2)", "host=not_literal_or(a|b)",
			"host=not_iliteral_or(A|b2)", "host=wildcard(*)", "host=wildcard(B*)", "host=iwildcard(b*)", "host=regexp(a|c)", "host=regexp(^B.*$)",
			"dc=regexp(x|y)", "rack=*", "host=wildcard(*2)")
	}
	list := func() string {
		text := one()
		if m.chance(25) {
			if other := one(); other[:2] != text[:2] {
				text += "," + other
			}
		}
		return text
	}
	switch m.IntN(6) {
	case 0:
		return ""
	case 1:
		return "{}{" + list() + "}"
	case 2:
		return "{" + list() + "}{" + list() + "}"
	}
	return "{" + list() + "}"
}

// expression returns a parameter m.
func (m maker) expression() string {
	parts := []string{m.aggregator()}
	if m.chance(25) {
		// Rates are those of one series, or of series whose first points are at one time: OpenTSDB lets a rate of the
		// first point, against zero at the epoch, count where others have one.
		// Counters do not begin below zero.
		rate, metric := m.rate(), m.one("whole", "counter", "whole{dc=*}", "counter{host=*}")
		if m.chance(40) {
			rate, metric = "rate", m.one("gaps", "mixed", "dbl{host=*}", "fine{host=*}")
		}
		return strings.Join(append(parts, rate, m.one("1m-avg-nan:", "15m-max:", "", "")+metric), ":")
	}
	if m.chance(50) {
		parts = append(parts, m.downsample())
	}
	if m.chance(10) {
		parts = append(parts, "explicit_tags")
	}
	metric := m.metric()
	if metric == "gaps" || metric == "mixed" {
		return strings.Join(append(parts, metric), ":") + m.one("", "{host=*}", "{host=a}")
	}
	return strings.Join(append(parts, metric), ":") + m.filters()
}

// times returns start and end.
func (m maker) times() (start, end string) {
	from := m.Int64N(spanS / 2)
	to := from + 1 + m.Int64N(spanS-from)
	switch m.IntN(6) {
	case 0:
		return fmt.Sprint((startS+from)*1000 + m.Int64N(1000)), fmt.Sprint((startS + to) * 1000)
	case 1:
		return "2023/11/14-22:00:00", "2023/11/15-00:30:00"
	case 2:
		return "2023/11/14", fmt.Sprint(startS + to)
	}
	return fmt.Sprint(startS + from), fmt.Sprint(startS + to)
}

// query returns a GET of /api/query.
func (m maker) query() question {
	start, end := m.times()
	parameters := url.Values{"start": {start}, "end": {end}, "m": {m.expression()}}
	if m.chance(10) {
		parameters.Add("m", m.expression())
	}
	target := "/api/query?" + parameters.Encode()
	ms := m.chance(20)
	if m.chance(10) {
		target += "&arrays"
		ms = ms || strings.Contains(target, "fine") // of the points of a second the last is answered, not all
	}
	if ms {
		target += "&ms"
	}
	return question{Kind: "query", Method: "GET", Target: target}
}

// post returns a POST of /api/query.
func (m maker) post() question {
	start, end := m.times()
	sub := map[string]any{"metric": m.metric(), "aggregator": m.aggregator()}
	if m.chance(40) {
		sub["downsample"] = m.downsample()
	}
	if m.chance(25) {
		sub["rate"], sub["metric"] = true, m.one("whole", "counter")
		if m.chance(60) {
			sub["rateOptions"] = map[string]any{"counter": m.chance(70), "counterMax": 500, "resetValue": m.IntN(3), "dropResets": m.chance(30)}
		}
	}
	if m.chance(30) {
		sub["tags"] = map[string]string{"host": m.one("a", "*", "a|b", "literal_or(a|c)")}
	} else if m.chance(70) {
		sub["filters"] = []map[string]any{{"type": m.one("literal_or", "iliteral_or", "not_literal_or"), "tagk": "host", "filter": m.one("a", "a|b", "B2"), "groupBy": m.chance(50)}}
	}
	if m.chance(10) {
		sub["explicitTags"] = true
	}
	body := map[string]any{"start": start, "end": end, "queries": []any{sub}, "msResolution": m.chance(30)}
	if m.chance(30) {
		body["timezone"] = m.one("America/New_York", "Asia/Kolkata", "UTC")
	}
	if m.chance(20) {
		body["useCalendar"] = true
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // of strings, numbers and truth values
	}
	return question{Kind: "post", Method: "POST", Target: "/api/query", Body: string(text)}
}

// empties returns queries with fill policies over ranges with few points or none.
func empties() []question {
	var all []question
	for _, r := range [][2]int64{
		{startS + 100, startS + 400},   // after points, in their hour
		{startS + 2800, startS + 3000}, // in an hour without points
		{startS + 5100, startS + 5190}, // before points, in their hour
		{startS - 900, startS - 300},   // before all points, in the hour of the first
		{startS + 20_000, startS + 20_300},
		{startS + 20, startS + 5205}, // from points over hours without any
	} {
		for _, m := range []string{"sum:1m-avg-zero:gaps", "sum:1m-avg-nan:gaps{host=*}", "sum:1m-avg-null:gaps", "none:1m-avg-zero:gaps", "sum:5m-sum:gaps",
			"sum:rate:1m-avg-zero:gaps", "zimsum:10m-count-zero:gaps", "avg:20m-avg-zero:dbl{host=*}", "sum:20m-avg-zero:dbl", "sum:gaps"} {
			all = append(all, question{Kind: "empty", Method: "GET",
				Target: "/api/query?" + url.Values{"start": {fmt.Sprint(r[0])}, "end": {fmt.Sprint(r[1])}, "m": {m}}.Encode()})
		}
	}
	return all
}

// wrong returns requests that are refused, or nearly.
func wrong() []question {
	var all []question
	get := func(target string) { all = append(all, question{Kind: "wrong", Method: "GET", Target: target}) }
	m := func(text string) {
		get("/api/query?" + url.Values{"start": {fmt.Sprint(startS)}, "end": {fmt.Sprint(startS + 300)}, "m": {text}}.Encode())
	}
	for _, text := range []string{
		`sum:dbl{"host"="a"}`, `sum:dbl{host="a"}`, "sum:dbl{host=zz}", "sum:dbl{nosuch=a}", "sum:dbl{nosuch=*}", "sum:nosuch", "nosuch:dbl", "dbl", "", "sum:", ":dbl",
		"sum:dbl{host}", "sum:dbl{host=}", "sum:dbl{=a}", "sum:dbl{host=a", "sum:dbl host=a}", "sum:dbl{host=a,host=b}", "sum:dbl{}", "sum:dbl{}{}", "sum:dbl{host=a}{host=b}",
		"sum:dbl{host=nosuch(a)}", "sum:dbl{host=regexp([)}", "sum:dbl{host=regexp()}", "sum:dbl{host=literal_or()}", "sum:dbl{host=wildcard()}", "sum:dbl{host=wildcard(a)}",
		"sum:dbl{host=not_key(a)}", "sum:dbl{rack=not_key()}", "sum:dbl{host=a|}", "sum:dbl{host=|a}", "sum:dbl{host=a|zz}", "sum:dbl{host=literal_or(zz)}", "sum:dbl{host=not_literal_or(zz)}",
		"sum:1m:dbl", "sum:1m-nosuch:dbl", "sum:1m-avg-nosuch:dbl", "sum:-avg:dbl", "sum:1x-avg:dbl", "sum:0m-avg:dbl", "sum:1m-avg-zero-none:dbl", "sum:1m-none:dbl", "sum:m-avg:dbl",
		"sum:1m-avg-scalar:dbl", "sum:1m-avg-:dbl", "sum:rate{}:dbl", "sum:rate{nosuch}:dbl", "sum:rate{counter,x}:dbl", "sum:rate{counter,1,2,3}:dbl", "sum:rate{counter:dbl", "sum:nosuch:dbl",
		"sum:dbl:rate", "sum:rate:rate:dbl", "sum:1m-avg:rate:dbl", "sum:DBL", "SUM:dbl", "sum:dbl{host=A}", "sum:dbl{HOST=a}", "sum:dbl{host=a b}", "sum:all-avg:dbl", "sum:1all-avg:dbl",
		"sum:dbl{host=iliteral_or(zz)}", "sum:dbl{dc=x,host=zz}", "sum:dbl{}{host=zz}", "sum:dbl{}{nosuch=a}", `sum:dbl{host='a'}`, `sum:dbl{host=a*}`, `sum:dbl{host=*2}`, `sum:db"l`, "sum:dbl{ho\"st=a}",
	} {
		m(text)
	}
	for _, times := range []string{
		"", "start=", "start=x", "start=1700000000&end=x", "start=1700000300&end=1700000000", "start=1700000000&end=1700000000", "start=-5", "start=0", "start=1700000000&end=1700000300",
		"start=1h-ago", "start=1x-ago", "start=ago", "start=now", "start=1700000000.5&end=1700000300", "start=1700000000.5000", "start=2023/11/14-22:13:20&end=2023/11/14-22:20",
		"start=2023/11/14-22&end=1700000300", "start=2023/13/14", "start=2023/11/14%2022:13:20&end=1700000300", "start=1700000000000&end=1700000300", "start=1700000000000ms&end=1700000300",
		"start=2023/11/14-22:13:20&end=2023/11/14-22:20&tz=America/New_York", "start=2023/11/14&tz=Nosuch/Zone", "start=17000000000000",
	} {
		get("/api/query?m=sum:dbl{host=a}&" + times)
	}
	get("/api/query?start=1700000000&end=1700000300")
	get("/api/query?start=1700000000&end=1700000300&m=sum:dbl&m=sum:nosuch")
	get("/api/query?start=1700000000&end=1700000300&tsuid=sum:000001")
	get("/api/query?start=1700000000&end=1700000300&tsuid=sum:xyz")
	get("/api/nosuch")
	get("/api/query/nosuch")
	get("/api")
	get("/nosuch")
	for _, body := range []string{
		"", "{", "[]", "{}", "null", `"x"`, `{"start":1700000000}`, `{"start":1700000000,"queries":[]}`, `{"start":1700000000,"queries":null}`, `{"start":1700000000,"queries":[{}]}`,
		`{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl"}]}`, `{"start":1700000000,"end":1700000300,"queries":[{"aggregator":"sum"}]}`,
		`{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"sum"}]}`, `{"start":"1700000000","end":"1700000300","queries":[{"metric":"dbl","aggregator":"sum","nosuch":1}]}`,
		`{"start":1700000000,"end":1700000300,"nosuch":1,"queries":[{"metric":"dbl","aggregator":"sum"}]}`, `{"queries":[{"metric":"dbl","aggregator":"sum"}]}`,
		`{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"nosuch"}]}`, `{"start":1700000000,"end":1700000300,"queries":[{"metric":"nosuch","aggregator":"sum"}]}`,
		`{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"sum","downsample":"x"}]}`, `{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"sum","downsample":""}]}`,
		`{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"sum","tags":{"host":""}}]}`, `{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"sum","tags":{"\"host\"":"a"}}]}`,
		`{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"sum","filters":[{"type":"nosuch","tagk":"host","filter":"a"}]}]}`,
		`{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"sum","filters":[{"type":"literal_or","tagk":"host"}]}]}`,
		`{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"sum","filters":[{"type":"literal_or","filter":"a"}]}]}`,
		`{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"sum","filters":[{"type":"literal_or","tagk":"nosuch","filter":"a"}]}]}`,
		`{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"sum","filters":[]}]}`, `{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"sum","rate":"x"}]}`,
		`{"start":1700000000,"end":1700000300,"queries":[{"metric":"dbl","aggregator":"sum","rate":true,"rateOptions":{"counter":"x"}}]}`, `{"start":1700000000,"end":1700000300,"timezone":"Nosuch","queries":[{"metric":"dbl","aggregator":"sum"}]}`,
	} {
		all = append(all, question{Kind: "wrong", Method: "POST", Target: "/api/query", Body: body})
	}
	for _, q := range []question{
		{Method: "PUT", Target: "/api/query"}, {Method: "DELETE", Target: "/api/suggest"}, {Method: "PUT", Target: "/api/suggest"}, {Method: "POST", Target: "/api/aggregators", Body: "{}"},
		{Method: "PUT", Target: "/api/aggregators"}, {Method: "PUT", Target: "/api/version"}, {Method: "GET", Target: "/api/put"}, {Method: "PUT", Target: "/api/put"}, {Method: "DELETE", Target: "/api/put"},
		{Method: "PUT", Target: "/api/search/lookup"}, {Method: "PUT", Target: "/api/query/last"},
	} {
		q.Kind = "wrong"
		all = append(all, q)
	}
	return all
}

// names returns requests for names and last values.
func names() []question {
	var all []question
	for _, target := range []string{
		"/api/suggest?type=metrics", "/api/suggest?type=metrics&q=d", "/api/suggest?type=metrics&q=d&max=1", "/api/suggest?type=tagk", "/api/suggest?type=tagv", "/api/suggest?type=tagv&q=b",
		"/api/suggest?type=tagv&q=B", "/api/suggest?type=tagv&max=2", "/api/suggest?type=metrics&max=0", "/api/suggest?type=metrics&max=-1", "/api/suggest?type=metrics&max=x", "/api/suggest", "/api/suggest?type=nosuch",
		"/api/suggest?type=metrics&q=zz", "/api/search/lookup?m=dbl", "/api/search/lookup?m=dbl{host=*}", "/api/search/lookup?m=dbl{host=a}", "/api/search/lookup?m=dbl{host=*,dc=x}", "/api/search/lookup?m=dbl{rack=*}",
		"/api/search/lookup?m={host=a}", "/api/search/lookup?m={host=*}", "/api/search/lookup?m=*{dc=y}", "/api/search/lookup?m=nosuch", "/api/search/lookup?m=dbl{host=zz}", "/api/search/lookup?m=dbl{nosuch=*}", "/api/search/lookup",
		"/api/search/lookup?m=", "/api/search/lookup?m=dbl{host=*}&limit=1", "/api/search/lookup?m=dbl&limit=0", "/api/search/lookup?m=dbl&use_meta=true", "/api/search/nosuch?m=dbl", "/api/search",
		"/api/query/last?timeseries=dbl{host=a,dc=x}&resolve=true&back_scan=0", "/api/query/last?timeseries=dbl{host=a}&resolve=true", "/api/query/last?timeseries=dbl&resolve=true",
		"/api/query/last?timeseries=nosuch&resolve", "/api/query/last?timeseries=dbl{host=zz}&resolve", "/api/query/last?timeseries=dbl{nosuch=a}&resolve", "/api/query/last", "/api/query/last?timeseries=",
		"/api/query/last?timeseries=dbl{host", "/api/query/last?timeseries=whole{host=a,dc=x}&resolve=true", "/api/query/last?timeseries=dbl{host=a,dc=x}", "/api/query/last?timeseries=dbl{host=a,dc=x}&back_scan=x",
		"/api/query/last?timeseries=whole&timeseries=counter&resolve=true", "/api/query/last?tsuids=xyz",
		"/api/aggregators", "/api/dropcaches",
	} {
		all = append(all, question{Kind: "names", Method: "GET", Target: target})
	}
	for _, post := range [][2]string{
		{"/api/suggest", `{"type":"metrics","q":"d","max":5}`}, {"/api/suggest", `{"type":"tagk"}`}, {"/api/suggest", `{}`}, {"/api/suggest", ""}, {"/api/suggest", `{"type":"nosuch"}`},
		{"/api/search/lookup", `{"metric":"dbl","tags":[{"key":"host","value":"*"}]}`}, {"/api/search/lookup", `{"metric":"dbl"}`}, {"/api/search/lookup", `{}`},
		{"/api/search/lookup", `{"metric":"dbl","limit":1,"useMeta":true}`}, {"/api/search/lookup", `{"metric":"dbl","tags":[{"key":"host","value":"a"}],"nosuch":1}`},
		{"/api/query/last", `{"queries":[{"metric":"dbl","tags":{"host":"a","dc":"x"}}],"resolveNames":true,"backScan":0}`}, {"/api/query/last", `{"queries":[{"metric":"dbl"}],"resolveNames":true}`},
		{"/api/query/last", `{"queries":[]}`}, {"/api/query/last", `{}`}, {"/api/query/last", ``},
	} {
		all = append(all, question{Kind: "names", Method: "POST", Target: post[0], Body: post[1]})
	}
	return all
}

// puts returns writes by HTTP, good ones and others.
func puts() []question {
	good := fmt.Sprintf(`{"metric":"put.a","timestamp":%d,"value":1,"tags":{"host":"a"}}`, startS)
	var all []question
	for _, target := range []string{"/api/put", "/api/put?summary", "/api/put?details", "/api/put?details&sync", "/api/put?summary&details", "/api/put?sync&sync_timeout=60000"} {
		for _, body := range []string{
			good, "[" + good + "]", "[]", "", "{", "null", "{}", "[{}]",
			"[" + good + `,{"metric":"put.b","timestamp":1700000000,"value":"x","tags":{"host":"a"}}]`,
			`{"metric":"put.c","timestamp":1700000000,"value":"5","tags":{"host":"a"}}`, `{"metric":"put.c","timestamp":"1700000001","value":"5.5","tags":{"host":"a"}}`,
			`{"metric":"put.d","timestamp":1700000000,"value":null,"tags":{"host":"a"}}`, `{"metric":"put.d","timestamp":1700000000,"value":"","tags":{"host":"a"}}`, `{"metric":"put.d","timestamp":1700000000,"value":true,"tags":{"host":"a"}}`,
			`{"metric":"put.d","timestamp":1700000000,"value":"NaN","tags":{"host":"a"}}`, `{"metric":"put.d","timestamp":1700000000,"value":1}`, `{"metric":"put.d","timestamp":1700000000,"value":1,"tags":{}}`,
			`{"metric":"","timestamp":1700000000,"value":1,"tags":{"host":"a"}}`, `{"timestamp":1700000000,"value":1,"tags":{"host":"a"}}`, `{"metric":"put.d","value":1,"tags":{"host":"a"}}`, `{"metric":"put.d","timestamp":0,"value":1,"tags":{"host":"a"}}`,
			`{"metric":"put.d","timestamp":-5,"value":1,"tags":{"host":"a"}}`, `{"metric":"put d","timestamp":1700000000,"value":1,"tags":{"host":"a"}}`, `{"metric":"put.d","timestamp":1700000000,"value":1,"tags":{"ho st":"a"}}`,
			`{"metric":"put.d","timestamp":1700000000,"value":1,"tags":{"host":""}}`, `{"metric":"put.d","timestamp":1700000000,"value":1,"tags":{"host":"a"},"nosuch":2}`, `{"metric":"put.d","timestamp":1700000000,"value":1e400,"tags":{"host":"a"}}`,
			`{"metric":"put.e","timestamp":1700000000,"value":9223372036854775808,"tags":{"host":"a"}}`, `{"metric":"put.e","timestamp":1700000001,"value":1e5,"tags":{"host":"a"}}`, `{"metric":"put\"e","timestamp":1700000001,"value":1,"tags":{"host":"a"}}`,
		} {
			if target != "/api/put" && target != "/api/put?details" && len(all)%4 != 0 { // of the other forms some
				all = append(all, question{})
				continue
			}
			all = append(all, question{Kind: "put", Method: "POST", Target: target, Body: body})
		}
	}
	kept := all[:0]
	for _, q := range all {
		if q.Kind != "" {
			kept = append(kept, q)
		}
	}
	return kept
}

// lines are sent to the ports of put, each by a connection of its own, with what is answered.
func lines() []question {
	var all []question
	for _, line := range []string{
		"put tel.a 1700000000 1 host=a", "put tel.a 1700000000 1", "put tel.a 1700000000", "put tel.a", "put", "put tel.a x 1 host=a", "put tel.a 1700000000 x host=a", "put tel.a 1700000000 1 host",
		"put tel.a 1700000000 1 host=", "put tel.a 1700000000 1 =a", "put tel.a 0 1 host=a", "put tel.a -5 1 host=a", "put tel.a 1700000000 NaN host=a", "put tel.a 1700000000 1e5 host=a", "put tel.a 1700000000.5 1 host=a",
		"put tel.a 1700000000.500 1 host=a", "put tel.a 1700000000500 1 host=a", "put tel\"a 1700000000 1 host=a", "put tel.a 1700000000 1 host=a host=b", "put  tel.a 1700000000  1 host=a", "nosuch", "PUT tel.a 1700000000 1 host=a",
		"tel.a 1700000000 1 host=a", "dropcaches",
	} {
		all = append(all, question{Kind: "line", Method: "LINE", Body: line})
	}
	return all
}

// makeQuestions returns all questions; those that write come last.
func makeQuestions(r *rand.Rand, many int) []question {
	m := maker{r}
	var all []question
	for range many {
		all = append(all, m.query())
	}
	for range many / 3 {
		all = append(all, m.post())
	}
	for _, list := range [][]question{empties(), wrong(), names(), puts(), lines()} {
		all = append(all, list...)
	}
	return all
}
