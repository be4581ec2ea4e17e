package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

func TestParseSelector(t *testing.T) {
	for text, want := range map[string]scan.Selector{
		"":         {MetricAny: true},
		"cpu":      {Metric: "cpu"},
		"{host}":   {MetricAny: true, Matchers: []scan.Matcher{{Name: "host", Kind: scan.MatchPresent}}},
		`"c{u" {}`: {Metric: "c{u"},
		`m{a=b , "x y" != "1,2",z=~"a.*", !t, u!~v,e=}`: {Metric: "m", Matchers: []scan.Matcher{
			{Name: "a", Kind: scan.MatchEqual, Values: []string{"b"}}, {Name: "x y", Kind: scan.MatchNotEqual, Values: []string{"1,2"}},
			{Name: "z", Kind: scan.MatchRegexp, Values: []string{"a.*"}}, {Name: "t", Kind: scan.MatchAbsent},
			{Name: "u", Kind: scan.MatchNotRegexp, Values: []string{"v"}}, {Name: "e", Kind: scan.MatchEqual, Values: []string{""}},
		}},
	} {
		if got, err := parseSelector(text, ""); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"cpu{", "cpu}", "cpu{=a}", "cpu{a=b", "cpu{a=b c=d}", "cpu{a=b}}", `"cpu`, "cpu{a,,b}", "cpu{!a=b}", "a=b"} {
		if s, err := parseSelector(text, ""); err == nil {
			t.Errorf("%s: %+v", text, s)
		}
	}
}

func FuzzParseSelector(f *testing.F) {
	f.Add(`m{a=b,"x y"!="1,2",z=~"a.*",!t}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSelector(text, "")
		if err != nil {
			return
		}
		again := fmt.Sprintf("%q{", s.Metric)
		for i, m := range s.Matchers {
			if i > 0 {
				again += ","
			}
			operator, ok := map[scan.MatchKind]string{scan.MatchEqual: "=", scan.MatchNotEqual: "!=", scan.MatchRegexp: "=~", scan.MatchNotRegexp: "!~"}[m.Kind]
			switch {
			case ok:
				again += fmt.Sprintf("%q%s%q", m.Name, operator, m.Values[0])
			case m.Kind == scan.MatchAbsent:
				again += fmt.Sprintf("!%q", m.Name)
			default:
				again += fmt.Sprintf("%q", m.Name)
			}
		}
		if back, err := parseSelector(again+"}", ""); err != nil || fmt.Sprint(back) != fmt.Sprint(s) {
			t.Fatalf("%q: %+v; %q: %+v, %v", text, s, again, back, err)
		}
	})
}

func TestProgress(t *testing.T) {
	p := &progress{}
	p.setTotal(200)
	p.addDone(50)
	p.addSamples(3000)
	if got, want := p.line(2*time.Second), "[=======                       ]  25%  3000 samples, 1500/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (&progress{}).line(0), "0 samples"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	none := startProgress(&strings.Builder{}, 1)
	none.addDone(1)
	none.addSamples(1)
	none.end()
	if none != nil {
		t.Error("progress on what is no terminal")
	}
}
