package parse

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

const graphiteNowMs = 1_700_000_123_456

// The reference parser of plaintext: split at blanks, then strconv.

func referenceGraphite(body string) (r result) {
	lines := strings.Split(body, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	for i, line := range lines {
		words := strings.FieldsFunc(strings.TrimSuffix(line, "\r"), func(c rune) bool { return c == ' ' || c == '\t' })
		switch {
		case len(words) == 0 || words[0][0] == '#':
		case len(words) == 3 && slices.Contains([]string{"nan", "+nan", "-nan"}, strings.ToLower(words[1])):
			r.strings++
		default:
			p, ok := refGraphitePoint(words)
			if p.number = i + 1; ok {
				r.points = append(r.points, p)
			} else {
				r.errors = append(r.errors, p.number)
			}
		}
	}
	return r
}

func refGraphitePoint(words []string) (p resultPoint, ok bool) {
	if len(words) != 3 {
		return p, false
	}
	metric, tags, ok := refGraphitePath(words[0])
	if !ok {
		return p, false
	}
	v, ok := refFloat(words[1])
	if !ok {
		return p, false
	}
	timeMs, ok := int64(graphiteNowMs), true
	if words[2] != "-1" && words[2] != "-1.0" && words[2] != "N" {
		if whole, _, _ := strings.Cut(words[2], "."); len(whole) > 10 {
			return p, false
		}
		timeMs, ok = refTime(words[2])
	}
	return resultPoint{0, keyOf("db", metric, tags), timeMs, math.Float64bits(v)}, ok
}

func refGraphitePath(path string) (metric string, tags map[string]string, ok bool) {
	if !utf8.ValidString(path) || strings.ContainsFunc(path, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return "", nil, false
	}
	parts := strings.Split(path, ";")
	tags = map[string]string{}
	for _, part := range parts[1:] {
		name, value, found := strings.Cut(part, "=")
		if !found || name == "" || value == "" || strings.ContainsAny(name, "!^") || value[0] == '~' || name == "_field" {
			return "", nil, false
		}
		tags[name] = value
	}
	return parts[0], tags, parts[0] != ""
}

func checkGraphite(t interface{ Fatalf(string, ...any) }, body string) {
	want := referenceGraphite(body)
	var b Batch
	rest, err := Graphite(&b, exact(body), GraphiteOptions{NowMs: graphiteNowMs})
	if err != nil || rest.Consumed != len(body) || rest.InsideLine {
		t.Fatalf("%q: %v, %+v", body, err, rest)
	}
	if d := difference(resultOf(&b, "db", Limits{}), want); d != "" {
		t.Fatalf("%q: %s (errors %v)", body, d, messages(&b))
	}
}

var graphiteSeeds = []string{
	"servers.a.cpu 0.64 1700000000\nservers.a.cpu\t-1e5  1700000060.5\r\n",
	"disk.used;dc=home;rack=7 12 -1\n# comment\n\n \t\nload 1 N\nload 2 -1.0\n",
	"a nan 1\na -NaN 1\na inf 1\na 0x10 1\na 1 1 1\na 1\na\na 1 0\na 1 -2\na 1 17000000000\na 1 1700000000000\n",
	"a; 1 1\na;b 1 1\na;b= 1 1\na;=b 1 1\na;b=~c 1 1\na;b!=c 1 1\na;b=c=d 1 1\na;b=1;b=2 1 1\n;a=b 1 1\na;_field=x 1 1\n",
	"\x00 1 1\n\xff 1 1\né.ü 1 1\na\x7f 1 1\na..b 1 1\n.a 1 1\na 1 1.\na 1 .5\na 1 000000000001\n",
}

func FuzzGraphite(f *testing.F) {
	for _, s := range graphiteSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) { checkGraphite(t, body) })
}

func TestGraphiteAgainstReference(t *testing.T) {
	path := rapid.StringOfN(rapid.SampledFrom([]rune("abz01-_.é;=~!")), 1, 20, -1)
	word := rapid.OneOf(rapid.StringMatching(`-?[0-9]{1,12}(\.[0-9]{0,5})?`), rapid.SampledFrom([]string{"N", "-1", "nan", "", "1700000000"}))
	line := rapid.Custom(func(t *rapid.T) string {
		return path.Draw(t, "path") + " " + word.Draw(t, "value") + rapid.SampledFrom([]string{" ", "\t "}).Draw(t, "blank") + word.Draw(t, "time") +
			rapid.SampledFrom([]string{"", "\r", " "}).Draw(t, "end")
	})
	rapid.Check(t, func(t *rapid.T) { checkGraphite(t, strings.Join(rapid.SliceOfN(line, 1, 8).Draw(t, "lines"), "\n")) })
}

// A stream cut anywhere means what the whole does.
func TestGraphiteInPieces(t *testing.T) {
	body := strings.Join(graphiteSeeds, "")
	want := referenceGraphite(body)
	for _, size := range []int{1, 7, 64} {
		var got result
		lines, held := 0, ""
		for from := 0; from < len(body); from += size {
			var b Batch
			held += body[from:min(from+size, len(body))]
			rest, err := Graphite(&b, []byte(held), GraphiteOptions{NowMs: graphiteNowMs, Partial: true})
			if err != nil {
				t.Fatal(err)
			}
			r := resultOf(&b, "db", Limits{})
			for i := range r.points {
				r.points[i].number += lines
			}
			for i := range r.errors {
				r.errors[i] += lines
			}
			got.points, got.errors, got.strings = append(got.points, r.points...), append(got.errors, r.errors...), got.strings+r.strings
			lines += strings.Count(held[:rest.Consumed], "\n")
			held = held[rest.Consumed:]
		}
		if d := difference(got, want); d != "" || held != "" {
			t.Errorf("pieces of %d bytes: %s; %q is left", size, d, held)
		}
	}
}

func TestGraphiteTemplates(t *testing.T) {
	rules := GraphiteRules{
		Tags: map[string]string{"dc": "home", "rack": "0"},
		Templates: []string{
			"servers.* .host.resource.measurement*",
			"servers.localhost.* .host.measurement.field* region=us,dc=here",
			"servers.*.disk.* .host..measurement.field",
			"stats.*.*.timers region.host.measurement.measurement.field",
			"pairs.* .tag.tag.measurement",
			"own.* .dc.measurement",
			"measurement.measurement.host.measurement*",
		},
	}
	names, err := NewGraphiteNames(rules)
	if err != nil {
		t.Fatal(err)
	}
	type tags = map[string]string
	for path, want := range map[string]struct {
		metric string
		tags   tags
	}{
		// Those of the page of InfluxDB's and Telegraf's parsers.
		"servers.a.cpu.load.avg":         {"load.avg", tags{"host": "a", "resource": "cpu", "dc": "home", "rack": "0"}},
		"servers.localhost.cpu.load.max": {"cpu", tags{"host": "localhost", "_field": "load.max", "region": "us", "dc": "here", "rack": "0"}},
		"servers.localhost.cpu.value":    {"cpu", tags{"host": "localhost", "region": "us", "dc": "here", "rack": "0"}},
		"servers.a.disk.x.used":          {"x", tags{"host": "a", "_field": "used", "dc": "home", "rack": "0"}},
		"servers.a.disk":                 {"", nil}, // the filter with disk wants one part more, and this template has no part left
		"servers.a.disk.used":            {"used", tags{"host": "a", "dc": "home", "rack": "0"}},
		"stats.b.c.timers.mean":          {"c.timers", tags{"region": "stats", "host": "b", "_field": "mean", "dc": "home", "rack": "0"}},
		"pairs.x.y.m":                    {"m", tags{"tag": "x.y", "dc": "home", "rack": "0"}},
		"own.there.m":                    {"m", tags{"dc": "there", "rack": "0"}},
		"own.there.m;dc=elsewhere":       {"m", tags{"dc": "elsewhere", "rack": "0"}},
		"a.b.c.d.e":                      {"a.b.d.e", tags{"host": "c", "dc": "home", "rack": "0"}},
		"a":                              {"a", tags{"dc": "home", "rack": "0"}},
		"a.b..d":                         {"a.b.d", tags{"dc": "home", "rack": "0"}},
	} {
		var b Batch
		if _, err := Graphite(&b, []byte(path+" 1 1700000000"), GraphiteOptions{Names: names}); err != nil {
			t.Fatal(err)
		}
		r := resultOf(&b, "db", Limits{})
		switch {
		case want.metric == "" && (len(r.errors) != 1 || len(r.points) > 0):
			t.Errorf("%s: %+v, want an error", path, r)
		case want.metric != "" && (len(r.points) != 1 || r.points[0].series != keyOf("db", want.metric, want.tags)):
			t.Errorf("%s: %+v (%v), want %+v", path, r, messages(&b), want)
		}
	}
}

func TestGraphiteSeparator(t *testing.T) {
	names, err := NewGraphiteNames(GraphiteRules{Separator: "_"})
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	if _, err := Graphite(&b, []byte("a.b.c 1 1"), GraphiteOptions{Names: names}); err != nil {
		t.Fatal(err)
	}
	if r := resultOf(&b, "db", Limits{}); len(r.points) != 1 || r.points[0].series != keyOf("db", "a_b_c", nil) {
		t.Errorf("%+v", r)
	}
}

func TestGraphiteTemplatesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"host.resource":                          "no part of it is the measurement",
		"measurement*.host":                      "nothing may stand behind it",
		"host*.measurement":                      "only measurement and field may have a *",
		"a b c d":                                "expected `[filter] template [tag=value,…]`",
		"":                                       "expected `[filter] template [tag=value,…]`",
		"a..b measurement":                       "is neither a name nor *",
		"a.b* measurement":                       "is neither a name nor *",
		"_field.measurement":                     "the tag _field is reserved",
		"measurement a=":                         "the value of the tag a is \"\"",
		"measurement a=1,a=2":                    "the tag a stands there twice",
		"measurement" + strings.Repeat(".a", 64): "no more than 64 may be",
	} {
		if _, err := NewGraphiteNames(GraphiteRules{Templates: []string{text}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := NewGraphiteNames(GraphiteRules{Templates: []string{"a.* measurement", "a.* host.measurement"}}); err == nil || !strings.Contains(err.Error(), `another template with the filter "a.*"`) {
		t.Error(err)
	}
	if _, err := NewGraphiteNames(GraphiteRules{Separator: "\n", Tags: map[string]string{"": "x"}}); err == nil || strings.Count(err.Error(), "not a template") != 2 {
		t.Error(err)
	}
}

// refTemplate applies a template as the page of InfluxDB's parser describes it: a map of joined parts.
func refTemplate(template, path, separator string) (metric string, tags map[string]string) {
	tags = map[string]string{}
	parts := strings.Split(path, ".")
	for i, name := range strings.Split(template, ".") {
		if i >= len(parts) || name == "" {
			continue
		}
		value := parts[i]
		if strings.HasSuffix(name, "*") {
			value = strings.Join(parts[i:], separator)
		}
		name = strings.TrimSuffix(name, "*")
		if before, has := tags[name]; has {
			value = before + separator + value
		}
		tags[name] = value
	}
	metric, field := tags["measurement"], tags["field"]
	for name, value := range tags {
		if value == "" {
			delete(tags, name)
		}
	}
	delete(tags, "measurement")
	delete(tags, "field")
	if field != "" && field != "value" {
		tags["_field"] = field
	}
	return metric, tags
}

func FuzzGraphiteTemplate(f *testing.F) {
	f.Add(".host.resource.measurement*", "servers.a.cpu.load.avg", "_")
	f.Add("measurement.host.measurement.field*", "a.b.c..d.value", ".")
	f.Add("host.measurement.field", "a.b.value", ".")
	f.Fuzz(func(t *testing.T, template, path, separator string) {
		names, err := NewGraphiteNames(GraphiteRules{Separator: separator, Templates: []string{template}})
		if err != nil || separator == "" || strings.ContainsAny(template, " \t=") || strings.ContainsFunc(template, func(c rune) bool { return len(strings.Fields("a"+string(c)+"a")) > 1 }) {
			return
		}
		if strings.ContainsAny(path, "\n\t #;") || !utf8.ValidString(path) {
			return
		}
		var b Batch
		if _, err := Graphite(&b, []byte(path+" 1 1"), GraphiteOptions{Names: names}); err != nil {
			t.Fatal(err)
		}
		metric, tags := refTemplate(template, path, separator)
		_, _, legal := refGraphitePath(path)
		r := resultOf(&b, "db", Limits{TagsMax: 100})
		if !legal || metric == "" {
			if len(r.points) > 0 {
				t.Fatalf("%q %q: %+v, want an error", template, path, r)
			}
			return
		}
		if len(r.points) != 1 || r.points[0].series != keyOf("db", metric, tags) {
			t.Fatalf("%q %q: %+v (%v), want %q %v", template, path, r, messages(&b), metric, tags)
		}
	})
}

func TestGraphiteLimits(t *testing.T) {
	var b Batch
	if _, err := Graphite(&b, []byte(strings.Repeat("a", 50)+" 1 1\nb 1 1\n"), GraphiteOptions{Limits: Limits{LineBytesMax: 40}}); err != nil {
		t.Fatal(err)
	}
	if len(b.Lines) != 1 || b.ErrorsTotal != 1 || b.Errors[0].Kind != KindLimit {
		t.Errorf("%+v", b.Errors)
	}
	if want := "point 1: line is longer than 40 bytes (line '" + strings.Repeat("a", 50) + " 1 1')"; b.Errors[0].Error() != want {
		t.Errorf("%s, want %s", b.Errors[0].Error(), want)
	}
}
