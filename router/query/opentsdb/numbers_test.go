package opentsdb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

// TestIntegersAndDoubles has, for each result, whether OpenTSDB writes integers: of samples that it stored as such, unless a
// window, a rate or a line was made of them. All points of a result have the same form.
func TestIntegersAndDoubles(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "whole", "n", "A"), t0, 2, t0+20, 4)
	s.put(scantest.Key("", "whole", "n", "B"), t0, 4, t0+20, 4)
	s.put(scantest.Key("", "apart", "n", "A"), t0, 2, t0+20, 4)
	s.put(scantest.Key("", "apart", "n", "B"), t0+10, 4)
	s.put(scantest.Key("", "double", "n", "A"), t0, 2, t0+10, 2.5)
	s.put(scantest.Key("", "vast"), t0, 1<<63, t0+10, 2)
	for m, want := range map[string]string{
		"sum:whole":           `0:6,20:8`,
		"max:whole":           `0:4,20:4`,
		"count:whole":         `0:2,20:2`,
		"avg:whole":           `0:3.0,20:4.0`,
		"dev:whole":           `0:1.0,20:0.0`,
		"p50:whole":           `0:3.0,20:4.0`,
		"avg:whole{n=A}":      `0:2,20:4`,
		"none:whole{n=A}":     `0:2,20:4`,
		"top1:whole":          `0:2,20:4`,
		"sum:1s-sum:whole":    `0:6.0,20:8.0`,
		"sum:rate:whole{n=A}": `20:0.1`,
		"sum:rate:whole{n=B}": `20:0.0`,
		"zimsum:apart":        `0:2,10:4,20:4`,
		"sum:apart":           `0:2.0,10:7.0,20:4.0`,
		"sum:double":          `0:2.0,10:2.5`,
		"sum:vast":            `0:9223372036854776000.0,10:2.0`,
	} {
		_, body := s.do("GET", fmt.Sprintf("/api/query?start=%d&end=%d&m=%s", t0, t0+60, m), "")
		_, got, _ := strings.Cut(body, `"dps":{`)
		got = strings.NewReplacer(fmt.Sprintf(`"%d`, t0/100), "", `"`, "", "}", "", "]", "").Replace(got)
		got = strings.NewReplacer("00:", "0:").Replace(got)
		if got != want {
			t.Errorf("%s: %s, not %s (%s)", m, got, want, body)
		}
	}
}
