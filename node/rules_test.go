package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

func rulesOf(t *testing.T, text string) *tenancy.Rules {
	t.Helper()
	rules, err := tenancy.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func keyIn(database, metric string, i int) series.Key {
	return series.AppendKey(nil, []byte(database), []byte(metric), []series.Tag{{Name: []byte("h"), Value: fmt.Append(nil, i)}})
}

// timesIn returns how many samples each metric of a database has.
func timesIn(t *testing.T, n *Node, database string) map[string]int {
	t.Helper()
	found := map[string]int{}
	request := &scan.Request{Selector: scan.Selector{Database: database, MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
	err := n.Scan(context.Background(), request, func(_ int, c *scan.Chunk) error {
		_, metric, _, _ := c.Key.Head()
		found[string(metric)] += len(c.Times)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestRulesOfRetention: each database and metric is kept as long as the rules say; what
// was cut stays away when rules change, and across a restart.
func TestRulesOfRetention(t *testing.T) {
	const hourMs = 3600_000
	clock := newClock(1_700_006_400_000) // a whole number of two hours
	var rules atomic.Pointer[tenancy.Rules]
	rules.Store(rulesOf(t, `
databases: {short: {retention: 1d}, long: {retention: 100d}}
retention-rules: [{database: "*", metric: "debug.*", retention: 4h}]
`))
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Clock, o.Retention, o.Rules = clock.now, 10*24*time.Hour, rules.Load
	n := mustOpen(t, o)
	for _, database := range []string{"", "short", "long"} {
		for _, metric := range []string{"cpu", "debug.x"} {
			w := &testWriter{node: n}
			for at := range int64(200 * 24 / 2) { // one sample each two hours, 200 days
				w.add(keyIn(database, metric, int(at%3)), clock.ms.Load()-2*hourMs*at, 1)
			}
			if err := w.send(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(what string, wanted map[string]map[string]int) {
		t.Helper()
		for database, metrics := range wanted {
			if got := timesIn(t, n, database); fmt.Sprint(got) != fmt.Sprint(metrics) {
				t.Errorf("%s: database %q has %v, not %v", what, database, got, metrics)
			}
		}
	}
	retain := func() {
		t.Helper()
		if err := n.retain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	retain()
	after := map[string]map[string]int{
		"":      {"cpu": 10*12 + 1, "debug.x": 3},
		"short": {"cpu": 12 + 1, "debug.x": 3},
		"long":  {"cpu": 100*12 + 1, "debug.x": 3},
	}
	want("cut", after)
	n = reopen(t, n, o)
	want("after a restart", after)
	if err := n.CompactAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("compacted", after)
	rules.Store(nil) // all is kept for 10 days from now on
	retain()
	after["long"]["cpu"] = 10*12 + 1
	want("without rules", after)
	rules.Store(rulesOf(t, `databases: {short: {retention: 0}}`))
	retain()
	clock.ms.Add(50 * 24 * hourMs)
	retain()
	n.believeClock()
	retain()
	want("one is kept for ever", map[string]map[string]int{"": {}, "short": {"cpu": 13, "debug.x": 3}})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRulesChangeOften: whoever adds and removes databases and rules one by one is followed
// each time, though one is kept for ever.
func TestRulesChangeOften(t *testing.T) {
	clock := newClock(1_700_006_400_000)
	var rules atomic.Pointer[tenancy.Rules] // the node's own maintenance reads them too
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Clock, o.Rules = clock.now, rules.Load
	n := mustOpen(t, o)
	text := "databases:\n  audit: {retention: 0}\n"
	for i := range 100 {
		text += fmt.Sprintf("  d%d: {retention: %dh}\n", i, 24+(i*37)%100)
		now := text
		if i%10 == 9 { // a rule of metrics comes, and goes with the next change
			now += "retention-rules: [{metric: debug.*, retention: 4h}]\n"
		}
		rules.Store(rulesOf(t, now))
		clock.ms.Add(3600_000)
		wanted := planRetention(rules.Load().RetentionRules(), o.Retention, clock.now())
		followed := func() bool {
			if err := n.retain(t.Context()); err != nil {
				t.Fatal(err)
			}
			known := n.engine.ShardRuleCuts(0)
			return known[len(known)-1].SameRules(wanted.rules)
		}
		// Maintenance that began with the rules before may come in between, once.
		for attempt := 1; !followed(); attempt++ {
			if attempt < 3 {
				continue
			}
			t.Fatalf("change %d waits: %d lists are known", i, len(n.engine.ShardRuleCuts(0)))
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLargestRules: the largest file that is taken is followed, in each shard and after a
// restart.
func TestLargestRules(t *testing.T) {
	clock := newClock(1_700_006_400_000)
	text := "retention-rules:\n"
	for i := range 999 {
		text += fmt.Sprintf("  - {database: \"db.%03d.%s*\", retention: 30d}\n", i, strings.Repeat("x", 20))
	}
	rules := rulesOf(t, text+"defaults: {retention: 100d}\n")
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Clock, o.Rules = clock.now, func() *tenancy.Rules { return rules }
	n := mustOpen(t, o)
	if err := n.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for shard := range uint16(testShards) {
			if known := n.engine.ShardRuleCuts(shard); len(known) != 1 || len(known[0].Rules) != 1000 {
				t.Fatalf("shard %d knows %d lists", shard, len(known))
			}
		}
		n = reopen(t, n, o)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRulesOfSeries: a database gets no more series than its rules allow, at once and a
// second; others are not touched.
func TestRulesOfSeries(t *testing.T) {
	clock := newClock(1_700_000_000_000)
	rules := rulesOf(t, `databases: {few: {series-max: 5}, slow: {series-per-second-max: 3}}`)
	o := testOptions(vfs.NewMemFS(), SyncOff)
	o.Clock, o.Rules = clock.now, func() *tenancy.Rules { return rules }
	n := mustOpen(t, o)
	write := func(database string, from, to int) (written int, err error) {
		t.Helper()
		for i := from; i < to; i++ {
			key := keyIn(database, "m", i)
			var e series.BatchEncoder
			e.Append(e.Define(key), clock.ms.Load(), 1, 0)
			outcome, failed := n.Write(t.Context(), &series.Frame{Parts: []series.Part{{Shard: key.Shard(testShards), Batch: e.AppendTo(nil)}}, Points: 1})
			if failed != nil {
				t.Fatal(failed)
			}
			if len(outcome.Refused) == 0 {
				written++
			} else {
				err = outcome.Refused[0].Err
			}
		}
		return written, err
	}
	if written, err := write("few", 0, 8); written != 5 || !errors.Is(err, series.ErrSeriesLimit) {
		t.Fatal(written, err)
	}
	clock.ms.Add(2000) // it is counted anew
	if written, err := write("few", 0, 8); written != 5 || !errors.Is(err, series.ErrSeriesLimit) {
		t.Fatal("those that are there are written:", written, err)
	}
	if written, err := write("slow", 0, 8); written != 3 || !errors.Is(err, series.ErrSeriesRate) {
		t.Fatal(written, err)
	}
	clock.ms.Add(1000)
	if written, _ := write("slow", 8, 20); written != 3 {
		t.Fatal(written)
	}
	if written, err := write("free", 0, 20); written != 20 {
		t.Fatal(written, err)
	}
	if count, err := n.NamesOf(nil).Count(t.Context(), "few"); err != nil || count != 5 {
		t.Fatal(count, err)
	}
	if count, err := (led{n}).SeriesLed("free"); err != nil || count != 20 {
		t.Fatal(count, err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}
