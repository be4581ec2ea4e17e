package mqtt

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/scan"
)

// subscriptionOf reads one subscription.
func subscriptionOf(t testing.TB, text string) *subscription {
	t.Helper()
	f, err := Parser{}.Parse("m.yaml", []byte("connections: {c: {urls: [\"mqtt://127.0.0.1\"], subscriptions: [{"+text+"}]}}"))
	if err != nil {
		t.Fatal(err)
	}
	return f.connections[0].subscriptions[0]
}

func TestJSON(t *testing.T) {
	const receivedMs = 5
	for _, c := range []struct{ name, subscription, payload, want string }{
		{"all numbers", `topic: "t/{metric}"`, `{"a":1,"b":{"c":2,"d":[3]},"e":"4","f":null,"g":true}`, "m_a{} 1 @5|m_b_c{} 2 @5|m_g{} 1 @5"},
		{"named ones", `topic: "t/{metric}", fields: {x: b.c, y: e, z: l.1, none: q}`, `{"a":1,"b":{"c":2},"e":"4.5","l":[7,8]}`, "m_x{} 2 @5|m_y{} 4.5 @5|m_z{} 8 @5"},
		{"one name", `topic: "t/+", metric: power, fields: {w: w}`, `{"w":-1.5e3,"v":1}`, "power{} -1500 @5"},
		{"times", `topic: "t/+", time: at.s, time-unit: s`, `{"at":{"s":1700000000.9999},"v":1}`, "v{} 1 @1700000000999"},
		{"a time in quotes", `topic: "t/+", time: t, time-unit: ns`, `{"t":"-1","v":1}`, "v{} 1 @-1"},
		{"RFC 3339", `topic: "t/+", time: t, time-unit: rfc3339`, `{"t":"2023-11-14T22:13:20.5+01:00","v":1}`, "v{} 1 @1699996400500"},
		{"tags", `topic: "t/+", tags: {a: b}, json-tags: {d: dev, n: no, z: zone}`, `{"dev":"x y","no":7,"v":1}`, "v{a=b,d=x y,n=7} 1 @5"},
		{"lists", `topic: "t/+"`, `[{"v":1},{"v":2,"w":3}]`, "v{} 1 @5|v{} 2 @5|w{} 3 @5"},
		{"the last of equal names", `topic: "t/+"`, `{"v":1,"v":2}`, "v{} 2 @5"},
		{"no number", `topic: "t/+"`, `{"v":"1"}`, "! empty"},
		{"too large a number", `topic: "t/+"`, `{"v":1e999}`, "! empty"},
		{"a time that no query reaches", `topic: "t/+", time: t, time-unit: s`, `{"t":9007199254740993,"v":1}`, "! time"},
		{"no time", `topic: "t/+", time: t, time-unit: s`, `{"v":1}`, "! time"},
		{"no record", `topic: "t/+"`, `1`, "! payload"},
		{"a list of no records", `topic: "t/+"`, `[1]`, "! payload"},
		{"too many records", `topic: "t/+"`, "[" + strings.Repeat("{},", jsonRecordsMax) + "{}]", "! size"},
		{"too deep", `topic: "t/+"`, strings.Repeat(`{"a":`, jsonDepthMax+1) + "1" + strings.Repeat("}", jsonDepthMax+1), "! payload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			samples, err := subscriptionOf(t, c.subscription).decode("t/m", []byte(c.payload), receivedMs)
			if got := told(t, samples, err); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// told words the outcome of decode, read by way of the request.
func told(t *testing.T, samples []sample, err error) string {
	t.Helper()
	if err != nil {
		return "! " + reasonNames[reasonOf(err)]
	}
	var e encoder
	r := &request{}
	for i := range samples {
		e.add(r, "t", &samples[i])
	}
	if estimate := bytesOf(samples); len(r.body) > estimate {
		t.Errorf("%d bytes, estimated %d", len(r.body), estimate)
	}
	texts, err := textsOf("", r.body)
	if err != nil {
		t.Fatal(err)
	}
	for i := range texts {
		texts[i] = strings.TrimPrefix(texts[i], " ") // the default database has no name
	}
	return strings.Join(texts, "|")
}

func TestValue(t *testing.T) {
	s := subscriptionOf(t, `topic: "{room}/{metric}", format: value`)
	for payload, want := range map[string]string{
		"21.5": "t{room=den} 21.5 @7", " -3e2\r\n": "t{room=den} -300 @7", "ON": "t{room=den} 1 @7", "false": "t{room=den} 0 @7",
		"": "! payload", "nan": "! payload", "inf": "! payload", "0x10": "! payload", "1_0": "! payload", "21.5 C": "! payload", strings.Repeat("1", 300): "! payload",
	} {
		samples, err := s.decode("den/t", []byte(payload), 7)
		if got := told(t, samples, err); got != want {
			t.Errorf("%q: %s, want %s", payload, got, want)
		}
	}
	for topic, want := range map[string]string{"/t": "! topic", "den/": "! topic", "a/b/c": "! topic", "\xff/t": "! topic"} {
		samples, err := s.decode(topic, []byte("1"), 7)
		if got := told(t, samples, err); got != want {
			t.Errorf("%q: %s, want %s", topic, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	s := subscriptionOf(t, `topic: "{gateway}/#", format: line, tags: {site: home}`)
	for payload, want := range map[string]string{
		`m\ x,a=b\,c f\ 1=1,value=2 1000000`:  "m x{_field=f 1,a=b,c,gateway=g,site=home} 1 @1|m x{a=b,c,gateway=g,site=home} 2 @1",
		`m,site=own v=true`:                   "m{_field=v,gateway=g,site=own} 1 @7",
		"# comment\n\nm value=1i 2000000\r\n": "m{gateway=g,site=home} 1 @2",
		`m s="only text"`:                     "! empty",
		"m value=1\nm value=":                 "! payload",
		"":                                    "! empty",
	} {
		samples, err := s.decode("g/x", []byte(payload), 7)
		if got := told(t, samples, err); got != want {
			t.Errorf("%q: %s, want %s", payload, got, want)
		}
	}
}

// The oracle divides exact fractions.
func FuzzTime(f *testing.F) {
	for _, seed := range []string{"0", "-1", "1700000000.5", "1700000000.123", "-1700000000.123", "-0.0005", "1e-999999", "1e9", "9223372036854775807", "-9223372036854775808", "1e308", "", ".", "2023-11-14T22:13:20Z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for unit, per := range map[timeUnit]int64{unitNs: 1e6, unitUs: 1e3, unitMs: 1} {
			whole, isWhole := new(big.Int).SetString(text, 10)
			ms, ok := timeOfText(text, unit)
			if ok && (ms < scan.TimeMsMin || ms > scan.TimeMsMax) {
				t.Fatalf("%q is %d", text, ms)
			}
			if !isWhole || !whole.IsInt64() || strings.ContainsAny(text, "_") {
				continue
			}
			want := new(big.Int).Div(whole, big.NewInt(per)).Int64() // Euclid's: rounded down
			if reachable := want >= scan.TimeMsMin && want <= scan.TimeMsMax; ok != reachable || ok && ms != want {
				t.Fatalf("%q in unit %d: %d, %v, want %d, %v", text, unit, ms, ok, want, reachable)
			}
		}
		if seconds := regexp.MustCompile(`^(-?)(1?\d{1,9})\.(\d{1,9})$`).FindStringSubmatch(text); seconds != nil {
			ns, _ := strconv.ParseInt(seconds[1]+seconds[2]+(seconds[3] + "00000000")[:9], 10, 64)
			want := ns / 1_000_000
			if ns%1_000_000 < 0 {
				want--
			}
			if ms, ok := timeOfText(text, unitS); !ok || ms != want {
				t.Fatalf("%q s: %d, %v, want %d", text, ms, ok, want)
			}
		}
		if ms, ok := timeOfText(text, unitText); ok {
			if want, err := time.Parse(time.RFC3339, text); err != nil || want.UnixMilli() != ms {
				t.Fatalf("%q: %d, want %v", text, ms, want)
			}
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"ts":1,"a":1,"b":{"c":true}}`, `[{"ts":"2"}]`, `{"id":"x","ts":1.5,"a":1e400}`, "{", `"`, `{"\ud800":1,"ts":1}`, `{"":{"":1},"ts":0}`} {
		f.Add(seed)
	}
	s := subscriptionOf(f, `topic: "{room}/{metric}", time: ts, time-unit: s, json-tags: {id: id}`)
	f.Fuzz(func(t *testing.T, payload string) {
		samples, err := s.decode("den/m", []byte(payload), 1)
		check(t, samples, err)
		if err == nil && !json.Valid([]byte(payload)) {
			t.Fatalf("%q is no JSON", payload)
		}
	})
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{"m,a=b c=1 2", "m\\ value=1i", "m s=\"\n\"", "m \\=1", "m,_field=x v=1"} {
		f.Add(seed)
	}
	s := subscriptionOf(f, `topic: "{a}/#", format: line, tags: {site: home}`)
	f.Fuzz(func(t *testing.T, payload string) {
		samples, err := s.decode("x", []byte(payload), 1)
		check(t, samples, err)
	})
}

// check finds what no payload may make.
func check(t *testing.T, samples []sample, err error) {
	t.Helper()
	if (len(samples) == 0) != (err != nil) {
		t.Fatalf("%d samples, %v", len(samples), err)
	}
	if r := (*refusal)(nil); err != nil && !errors.As(err, &r) {
		t.Fatal(err)
	}
	for _, s := range samples {
		seen := map[string]bool{}
		for _, l := range s.labels {
			if seen[l.name] {
				t.Fatalf("%v", s.labels)
			}
			seen[l.name] = true
		}
		if !seen[labelMetric] || math.IsNaN(s.value) || s.timeMs < scan.TimeMsMin || s.timeMs > scan.TimeMsMax {
			t.Fatalf("%+v", s)
		}
	}
}

func TestCut(t *testing.T) {
	if got := cut(strings.Repeat("ä", 100)); !utf8.ValidString(got) || len(got) > 110 {
		t.Error(got)
	}
}
