package opentsdb

import (
	"encoding/json"
	"math"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/guard"
	"github.com/tickmesh/tickmesh/api/jsontext"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// FuzzExpression: no text breaks the parser, and what it takes can be shown as
// JSON and asked of a source.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{
		"sum:m", "avg:1m-avg:rate:m{host=*}", "max:rate{counter,100,5}:10s-max-nan:explicit_tags:m{a=b|c}{d=regexp(x{1,2}:y,z)}",
		"none:0all-count:m{}{k=not_key()}", "p99:1dc-p50-scalar(-1):m", "zimsum:rate{dropcounter}:m{host=web*}", "sum:m{", "sum:m}{", "sum:m{a=}", ":", "",
		"top3:m{x=iliteral_or(a|b),y=wildcard(*)}", "sum:00016D", "sum:percentiles[99.9]:m",
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	source := newServer(f).memory
	if err := source.Put(scantest.Key("", "m", "a", "b")); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, tsuids bool) {
		q, err := parseExpression(text, tsuids)
		if err != nil {
			return
		}
		if err := q.normalize(&guard.Meter{}, "", false, time.UTC, 1_600_000_000_000); err != nil {
			return
		}
		if shown := appendSubQuery(nil, &q); !json.Valid(shown) {
			t.Fatalf("%q is shown as %s", text, shown)
		}
		s := q.span(1_600_000_000_000, 1_600_000_100_000)
		if !s.empty && s.scanFrom > s.scanTo {
			t.Fatalf("%q spans %+v", text, s)
		}
		for i := range q.selectors {
			if _, err := source.Delete(t.Context(), &q.selectors[i], 0, 0); err != nil {
				t.Fatalf("%q: a source refuses %+v: %v", text, q.selectors[i], err)
			}
		}
	})
}

// FuzzTime: a time that is taken is in the range that the rest can compute with,
// and numbers mean what they say.
func FuzzTime(f *testing.F) {
	for _, seed := range []string{"now", "1h-ago", "1355961600", "1355961603.418", "2014/01/01-04:30:01", "5ms", "2014/02/29", "999999y-ago", "9223372036854775807"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ms, err := parseTime(text, now, time.UTC)
		if err != nil {
			return
		}
		if ms > math.MaxInt64/8 || ms < -2*durationMsMax {
			t.Fatalf("%q is %d", text, ms)
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && ms != n && ms != n*1000 {
			t.Fatalf("%q is %d", text, ms)
		}
	})
}

// FuzzDownsample: windows of any specification hold their times.
func FuzzDownsample(f *testing.F) {
	for _, seed := range []string{"1m-avg", "0all-sum", "7dc-max-zero", "500ms-p99-scalar(1e3)", "13wc-sum", "5nc-last-null", "100yc-dev"} {
		f.Add(seed, int64(1_600_000_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, at int64) {
		d, err := parseDownsample(text, false, time.UTC, 1_600_000_000_000)
		if err != nil || d.whole {
			return
		}
		at %= 4 * durationMsMax
		start := d.start(at)
		if next := d.next(start); start > at || next <= at {
			t.Fatalf("%q: %d is not in [%d, %d)", text, at, start, next)
		}
	})
}

// FuzzBody: any body gets an answer that is JSON.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"start":1,"queries":[{"aggregator":"sum","metric":"m"}]}`,
		`{"start":"1h-ago","end":null,"timezone":"UTC","useCalendar":true,"msResolution":"true","queries":[{"aggregator":"avg","metric":"m","downsample":"1h-avg-zero",` +
			`"rate":true,"rateOptions":{"counter":true,"counterMax":"10","resetValue":1,"dropResets":false},"tags":{"a":"*"},` +
			`"filters":[{"type":"regexp","tagk":"a","filter":".","groupBy":true}],"explicitTags":true,"tsuids":[]}]}`,
		`{"start":1,"arrays":true,"showQuery":true,"showTSUIDs":true,"queries":[{"aggregator":"none","tsuids":["00016D0161016201630164"]}]}`, `[]`, `{}`, `{"queries":[null]}`,
	} {
		f.Add(seed)
	}
	s := newServer(f, bounded(admission.Limits{BytesMax: 1 << 20}), func(o *Options) { o.Limits.PointsMax = 1000; o.Deleter = nil })
	s.put(scantest.Key("", "m", "a", "b"), 1, 1, 2, 2, 1_699_999_000, 3)
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/api/query", "/api/query/last", "/api/search/lookup", "/api/suggest"} {
			w := httptest.NewRecorder()
			s.serve(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
			if w.Code == 500 || w.Body.Len() < 30_000 && !json.Valid(w.Body.Bytes()) {
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}

// FuzzJSON compares what is written by hand with what the standard library reads.
func FuzzJSON(f *testing.F) {
	f.Add("a\"\\\n\x00\x7f\u2028é\xff<", 1.5)
	f.Add("", math.Copysign(0, -1))
	f.Add("x", 1e-7)
	f.Add("x", 1e15)
	f.Fuzz(func(t *testing.T, text string, v float64) {
		var back string
		if err := json.Unmarshal(jsontext.AppendHTML(nil, text), &back); err != nil || back != strings.ToValidUTF8(text, "\ufffd") && utf8.ValidString(text) {
			t.Fatalf("%q is read as %q, %v", text, back, err)
		}
		var number *float64
		if err := json.Unmarshal(appendFloat(nil, v, false), &number); err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		if (number == nil) != (math.IsNaN(v) || math.IsInf(v, 0)) || number != nil && math.Float64bits(*number) != math.Float64bits(v) {
			t.Fatalf("%v is read as %v", v, number)
		}
	})
}

// FuzzLast: what a body asks for the last points of can be asked of a source, and is of the
// database of the request.
func FuzzLast(f *testing.F) {
	for _, seed := range []string{
		`{"queries":[{"metric":"m","tags":{"a":"b"}},{"tsuids":["00016D"]}],"resolveNames":true,"backScan":24}`,
		`{"queries":[{"metric":1,"tags":{"a":null,"b":"*","c":"x|y","d":"regexp(.*)"}}],"resolveNames":"yes"}`,
		`{"backScan":-1}`, `{"backScan":1e300}`, `{"queries":[{}]}`, `[]`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	source := newServer(f).memory
	f.Fuzz(func(t *testing.T, body []byte) {
		q := &lastQuery{}
		if q.parseBody(body, "own") != nil {
			return
		}
		if q.backHours < 0 || q.backHours > backHoursMax {
			t.Fatalf("%q looks %d hours back", body, q.backHours)
		}
		for i := range q.selectors {
			if q.selectors[i].Database != "own" {
				t.Fatalf("%q asks for %+v", body, q.selectors[i])
			}
			if _, err := source.Delete(t.Context(), &q.selectors[i], 0, 0); err != nil {
				t.Fatalf("%q: a source refuses %+v: %v", body, q.selectors[i], err)
			}
		}
	})
}

// FuzzLookup: what is looked up is answered as JSON, however it is asked for.
func FuzzLookup(f *testing.F) {
	for _, seed := range []string{
		`m{a=b,c=*}`, `{a=b}`, `m{`, `m}`, `m{}`, `m{a=b}{c=d}`, "\xff{=}", `{"metric":"m","tags":[{"key":"a","value":"b"},{}],"limit":10,"startIndex":3}`,
		`{"limit":-1,"startIndex":9223372036854775807}`, `{"tags":[{"key":1,"value":null}]}`, `null`, `[]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		asked := &lookupQuery{limit: lookupLimitDefault}
		inBody := &lookupQuery{limit: lookupLimitDefault}
		for q, err := range map[*lookupQuery]error{asked: asked.parseExpression(text), inBody: inBody.parseBody([]byte(text))} {
			if err != nil {
				continue
			}
			if shown := append(q.appendHead(nil, 1, time.Second), "]}"...); !json.Valid(shown) {
				t.Fatalf("%q is answered by %s", text, shown)
			}
		}
	})
}

func FuzzParameters(f *testing.F) {
	for _, seed := range []string{
		"start=1h-ago&m=sum:rate{counter,,1}:1m-avg-none:m{a=*,b=regexp(x.*)}{c=x}", "start=1&end=2&tz=Europe/Berlin&use_calendar&m=none:m&m=none:m", "start=x&m=sum:m",
		"tsuid=sum:00016D,&start=1h-ago&ms=false&show_tsuids", "start=-9223372036854775808&m=sum:m", "start=9999999999999&end=1&m=sum:1s-count:m", "m=%00",
	} {
		f.Add(seed)
	}
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, err := parseParameters(p, "own", now, 50)
		if err != nil {
			return
		}
		if len(q.subs) == 0 || len(q.subs) > 50 {
			t.Fatalf("%q asks for %d series", text, len(q.subs))
		}
	})
}

// A name of a series opens no other database than that of the request.
func FuzzTSUID(f *testing.F) {
	f.Add(string(appendTSUID(nil, scantest.Key("own", "m", "a", "b"))))
	f.Add(string(appendTSUID(nil, scantest.Key("", "m"))))
	f.Add("00016")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := selectorOfTSUID(text, "own"); err == nil && (s.Database != "own" || !s.Exact) {
			t.Fatalf("%q asks for %+v", text, s)
		}
	})
}
