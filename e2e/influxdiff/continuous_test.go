package influxdiff

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// continuousQueries are queries of which each writes windows into a measurement of its name. EVERY and FOR are such that what is written does not
// depend on when a run was, once a window is over.
var continuousQueries = []struct{ name, create string }{
	{"plain", "BEGIN SELECT mean(v) INTO plain FROM cq GROUP BY time(2s), * END"},
	{"shifted", "BEGIN SELECT max(v), min(v) INTO shifted FROM cq GROUP BY time(3s, 1s), host END"},
	{"often", "RESAMPLE EVERY 1s BEGIN SELECT count(v) INTO often FROM cq WHERE host = 'a' GROUP BY time(2s) END"},
	{"rarely", "RESAMPLE EVERY 4s BEGIN SELECT sum(v) INTO rarely FROM cq GROUP BY time(1s), host END"},
	{"far", "RESAMPLE FOR 6s BEGIN SELECT last(v) AS value INTO far FROM cq GROUP BY time(2s) fill(7) END"},
	{"both", "RESAMPLE EVERY 2s FOR 6s BEGIN SELECT median(v) INTO d.autogen.both FROM d.autogen.cq WHERE time > 0 AND (host = 'a' OR host = 'b') GROUP BY time(1s), * TZ('Europe/Berlin') END"},
}

// TestContinuousQueries has an InfluxDB and a server run the same queries over points that are all there before, and compares what
// both have written.
func TestContinuousQueries(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test starts an InfluxDB")
	}
	const seconds = 120 // that have points: as long as a machine may take to have made all queries
	theirs, ours := startInfluxd(t), startServer(t, nil, nil)
	both := func(q string) {
		t.Helper()
		wantStatus, want := ask(t, theirs, q, nil)
		gotStatus, got := ask(t, ours, q, nil)
		if reason := compare(want, got); wantStatus != gotStatus || reason != "" {
			t.Errorf("%s\n  %s\n  influxdb %d %s\n  tickmesh %d %s", q, reason, wantStatus, clip(want), gotStatus, clip(got))
		}
	}
	both("CREATE DATABASE d")
	begin := time.Now().Unix()
	var lines []byte
	for n := range int64(seconds * 4) {
		lines = fmt.Appendf(lines, "cq,host=%c v=%d.5 %d\n", "abc"[n%3], n*n%97, begin*1000+n*250)
	}
	write(t, theirs, lines)
	write(t, ours, lines)
	for _, q := range continuousQueries {
		both(fmt.Sprintf("CREATE CONTINUOUS QUERY %s ON d %s", q.name, q.create))
	}
	made := time.Now().Unix() + 1
	both("CREATE CONTINUOUS QUERY plain ON d BEGIN SELECT max(v) INTO plain FROM cq GROUP BY time(2s) END")
	both("CREATE CONTINUOUS QUERY other ON none BEGIN SELECT max(v) INTO plain FROM cq GROUP BY time(2s) END")
	both("CREATE CONTINUOUS QUERY other ON d BEGIN SELECT max(v) FROM cq GROUP BY time(2s) END")
	both("CREATE CONTINUOUS QUERY other ON d BEGIN SELECT max(v) INTO plain FROM cq END")
	both("CREATE CONTINUOUS QUERY other ON d RESAMPLE FOR 1s BEGIN SELECT max(v) INTO plain FROM cq GROUP BY time(2s) END")
	both("DROP CONTINUOUS QUERY other ON d")
	if end := begin + seconds; made+20 > end {
		t.Fatalf("the queries were made after %d s, so that too few of %d s with points are left", made-begin, seconds)
	}
	// Windows of ten seconds from where all queries have run for some time.
	from, to := made+8, made+18
	for _, q := range continuousQueries {
		text := fmt.Sprintf("SELECT * FROM %s WHERE time >= %ds AND time < %ds GROUP BY *", q.name, from, to)
		until := fmt.Sprintf("SELECT * FROM %s WHERE time >= %ds LIMIT 1", q.name, to) // windows after those
		awaitRows(t, theirs, until)
		awaitRows(t, ours, until)
		_, want := ask(t, theirs, text, nil)
		_, got := ask(t, ours, text, nil)
		if reason := compare(want, got); reason != "" || len(want) < 200 {
			t.Errorf("%s\n  %s\n  influxdb %s\n  tickmesh %s", text, reason, clip(want), clip(got))
		}
	}
	for _, q := range continuousQueries {
		both(fmt.Sprintf("DROP CONTINUOUS QUERY %s ON d", q.name))
	}
}

// awaitRows waits until a query answers with a row.
func awaitRows(t *testing.T, base, q string) {
	t.Helper()
	var last []byte
	for end := time.Now().Add(waitMax); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var answer struct {
			Results []struct{ Series []json.RawMessage }
		}
		if _, last = ask(t, base, q, nil); json.Unmarshal(last, &answer) == nil && len(answer.Results) == 1 && len(answer.Results[0].Series) > 0 {
			return
		}
	}
	t.Fatalf("%s: no row by now: %s", q, clip(last))
}
