package mqtt

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// filterExpression is a filter as a regular expression, by section 4.7 of MQTT 5.
func filterExpression(filter string) *regexp.Regexp {
	text := regexp.QuoteMeta(filter)
	text = strings.ReplaceAll(text, `\+`, `[^/]*`)
	switch {
	case text == "#":
		text = ".*"
	case strings.HasSuffix(text, "/#"):
		text = strings.TrimSuffix(text, "/#") + "(/.*)?" // the level above, too
	}
	return regexp.MustCompile("^" + text + "$")
}

// Patterns match what the standard says of their filters.
func TestMatches(t *testing.T) {
	part := rapid.SampledFrom([]string{"", "a", "b", "$x", "ä"})
	rapid.Check(t, func(t *rapid.T) {
		levels := rapid.SliceOfN(rapid.OneOf(part, rapid.SampledFrom([]string{"+", "{x}", "{metric}"})), 1, 4).Draw(t, "levels")
		if rapid.Bool().Draw(t, "rest") {
			levels = append(levels, rapid.SampledFrom([]string{"#", "{y#}"}).Draw(t, "last"))
		}
		p, err := parsePattern(strings.Join(levels, "/"))
		if err != nil {
			return // a name twice, or nothing
		}
		topic := strings.Join(rapid.SliceOfN(part, 1, 5).Draw(t, "topic"), "/")
		want := filterExpression(p.filter()).MatchString(topic)
		if strings.HasPrefix(topic, "$") && strings.ContainsAny(p.filter()[:1], "+#") {
			want = false
		}
		if _, got := p.match(topic); got != want {
			t.Fatalf("%s (%s) and %s: %v, want %v", p.text, p.filter(), topic, got, want)
		}
	})
}

func TestNamedLevels(t *testing.T) {
	for _, c := range []struct{ pattern, topic, metric, tags string }{
		{"s/{room}/{metric}", "s/den/temp", "temp", "room=den"},
		{"s/{room}/+/{metric#}", "s/den/x/a/b", "a_b", "room=den"},
		{"{metric}/{room}/{metric}", "power/den/now", "power_now", "room=den"},
		{"{site}/{path#}", "home/a/b", "", "site=home path=a/b"},
		{"a/{metric#}", "a", "", ""},
	} {
		p, err := parsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		values, ok := p.match(c.topic)
		var tags []string
		for _, v := range values {
			if v.name != metricLevel {
				tags = append(tags, v.name+"="+v.value)
			}
		}
		if !ok || metricOf(values) != c.metric || strings.Join(tags, " ") != c.tags {
			t.Errorf("%s of %s: %v, %q, %q", c.pattern, c.topic, ok, metricOf(values), tags)
		}
	}
}

func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{{"a/{b}/+/#", "a/x/y/z"}, {"{metric#}", ""}, {"$SYS/#", "$SYS/a"}, {"+/{a}", "$x/b"}, {"{", "{"}, {"#/a", "a"}, {"{a}", "/"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, topic string) {
		p, err := parsePattern(text)
		if err != nil {
			return
		}
		if again, err := parsePattern(p.filter()); err != nil || again.filter() != p.filter() {
			t.Fatalf("%q has the filter %q: %v", text, p.filter(), err)
		}
		values, ok := p.match(topic)
		bytes := 0
		for _, v := range values {
			bytes += len(v.value)
		}
		if !ok && values != nil || bytes > len(topic) {
			t.Fatalf("%q and %q: %v, %v", text, topic, ok, values)
		}
	})
}
