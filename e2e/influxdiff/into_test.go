package influxdiff

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

// TestSelectInto writes what random queries select, and compares what is there then.
func TestSelectInto(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test starts an InfluxDB")
	}
	r := rand.New(rand.NewPCG(*seed, 3))
	theirs := startInfluxd(t)
	if status, body := ask(t, theirs, "CREATE DATABASE d", nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	points := makePoints(r)
	var lines []byte
	for i := range points {
		lines = append(append(lines, points[i].line()...), '\n')
	}
	write(t, theirs, lines)
	ours := startServer(t, points, lines)
	for _, base := range []string{theirs, ours} {
		if status, body := ask(t, base, "CREATE DATABASE e", nil); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	m := maker{r}
	failures, empty, texts := 0, 0, 0
	for n := range *many / 3 {
		target := fmt.Sprintf(m.one("into%d", "d.autogen.into%d", "e..into%d", `"e"."autogen"."into%d"`), n)
		q := strings.Replace(m.stored(), " FROM ", " INTO "+target+" FROM ", 1)
		parameters := url.Values{"epoch": {"ms"}}
		_, want := ask(t, theirs, q, parameters)
		_, got := ask(t, ours, q, parameters)
		if strings.Contains(string(got), "would be a text") {
			texts++
			continue
		}
		reason := compare(want, got)
		read := "SELECT * FROM " + target + " GROUP BY *"
		if reason == "" {
			_, want = ask(t, theirs, read, parameters)
			_, got = ask(t, ours, read, parameters)
			reason = compare(want, got)
		}
		if strings.Contains(string(want), `{"results":[{"statement_id":0}]}`) {
			empty++
		}
		if reason != "" {
			if failures++; failures <= 5 {
				t.Errorf("%s; %s\n  %s\n  influxdb %s\n  tickmesh %s", q, read, reason, clip(want), clip(got))
			}
		}
	}
	t.Logf("%d failures, %d empty, %d texts of %d", failures, empty, texts, *many/3)
}

// stored returns a query whose rows can be stored: no two of a series have the same time, and none has an infinity.
func (m maker) stored() string {
	switch m.IntN(3) {
	case 0:
		return "SELECT " + m.one("*", "f", "f, g", "f AS a, g AS value", "/f|g/", "f + g", "*::field") + " FROM apart" + m.where(false) + groupBy("*") + m.limits()
	case 1:
		return m.best()
	}
	return "SELECT " + m.aggregate() + m.one("", ", "+m.aggregate(), " AS x, "+m.aggregate()+" AS value") + " FROM " + m.one("apart", "together") + m.where(true) +
		groupBy(append([]string{m.interval()}, m.tags()...)...) + m.fill()
}
