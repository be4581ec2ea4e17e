package continuous

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ql "github.com/influxdata/influxql"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
)

// spanOf returns which times a SELECT is of.
func spanOf(t *testing.T, s *ql.SelectStatement) (from, to time.Time) {
	t.Helper()
	_, span, err := ql.ConditionExpr(s.Condition, nil)
	if err != nil {
		t.Error(err)
	}
	return span.Min, span.Max.Add(1)
}

// runnerFunc is a Runner.
type runnerFunc func(ctx context.Context, s *ql.SelectStatement) error

func (f runnerFunc) SelectInto(ctx context.Context, _ string, s *ql.SelectStatement) (int64, error) {
	return 1, f(ctx, s)
}

func (runnerFunc) Kept(string) time.Duration { return 0 }

// keeping is a Runner of databases of which some keep samples for a time.
type keeping struct {
	runnerFunc
	kept map[string]time.Duration
}

func (k keeping) Kept(database string) time.Duration { return k.kept[database] }

// TestSamplesAreDeleted: windows whose samples are deleted by now are not written again by a process that starts.
func TestSamplesAreDeleted(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1d) END`, "10T18:01 02:09T00-10T00, 11T00:00 02:10T00-11T00"},
		{`BEGIN SELECT max(v) INTO m FROM day..cpu GROUP BY time(1d) END`, "11T00:00 02:10T00-11T00"},
		{`BEGIN SELECT max(v) INTO m FROM (SELECT v FROM day..cpu) GROUP BY time(1d) END`, "11T00:00 02:10T00-11T00"},
		{`RESAMPLE FOR 3d BEGIN SELECT max(v) INTO m FROM day..cpu GROUP BY time(6h) END`, "10T18:01 02:09T18-10T18, 11T00:00 02:10T00-11T00"},
	} {
		q, err := newQuery(parse(t, "CREATE CONTINUOUS QUERY q ON db "+c.text), time.UnixMilli(0))
		if err != nil {
			t.Fatal(err)
		}
		var runs []string
		now := time.Date(2024, 2, 10, 18, 1, 0, 0, time.UTC)
		term := newTerm(New(Options{}), keeping{runnerFunc(func(_ context.Context, s *ql.SelectStatement) error {
			from, to := spanOf(t, s)
			runs = append(runs, now.Format("02T15:04 ")+from.Format("01:02T15-")+to.Format("02T15"))
			return nil
		}), map[string]time.Duration{"day": 24 * time.Hour}})
		for end := now.Add(7 * time.Hour); now.Before(end); now = now.Add(time.Minute) {
			at := now
			term.follow([]*Query{q}, at)
			term.begin(t.Context(), at)
			term.running.Wait()
		}
		if got := strings.Join(runs, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}

// TestManyQueries: short runs follow one another at once, and do not wait for the next look at the clock.
func TestManyQueries(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		set, n := newFolderSet(t, dir), &notes{took: 20 * time.Millisecond}
		for i := range 100 {
			if err := set.Create(t.Context(), parse(t, fmt.Sprintf(`CREATE CONTINUOUS QUERY q%d ON db BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1m) END`, i)), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		service := New(Options{Set: set, Parallel: 2})
		ended := make(chan struct{})
		go func() { defer close(ended); service.Run(ctx, n) }()
		sleepUntil(t, "00:00:59")
		n.take()
		sleepUntil(t, "00:01:03")
		if ran := n.take(); len(ran) != 100 {
			t.Errorf("%d of 100 queries of 20 ms have run after 3 seconds, two at a time", len(ran))
		}
		if got := testutil.ToFloat64(service.metrics.queries); got != 100 {
			t.Error(got)
		}
		cancel()
		<-ended
		if known, late := testutil.ToFloat64(service.metrics.queries), testutil.ToFloat64(service.metrics.late); known != 0 || late != 0 {
			t.Errorf("where no query is run any more there are %v, %v s late", known, late)
		}
	})
}

// TestTooMuchIsMadeUpForInParts: a limit that one window keeps to does not stop a query for ever that was not run for an hour.
func TestTooMuchIsMadeUpForInParts(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		set := newFolderSet(t, dir)
		if err := set.Create(t.Context(), parse(t, `CREATE CONTINUOUS QUERY q ON db BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1m) END`), time.Now()); err != nil {
			t.Fatal(err)
		}
		sleepUntil(t, "02:00:30")
		written := map[string]bool{}
		runner := runnerFunc(func(_ context.Context, s *ql.SelectStatement) error {
			from, to := spanOf(t, s)
			if to.Sub(from) > 5*time.Minute {
				return errors.New("too many samples")
			}
			for ; from.Before(to); from = from.Add(time.Minute) {
				written[from.Format("15:04")] = true
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); New(Options{Set: set}).Run(ctx, runner) }()
		sleepUntil(t, "02:30:30")
		for at := time.Date(2000, 1, 1, 1, 5, 0, 0, time.UTC); at.Before(time.Date(2000, 1, 1, 2, 29, 0, 0, time.UTC)); at = at.Add(time.Minute) {
			if !written[at.Format("15:04")] {
				t.Errorf("the window of %s is not written", at.Format("15:04"))
			}
		}
		cancel()
		<-ended
	})
}

// TestClockIsSet: when a query is due goes by the clock on the wall, also one that is set back.
func TestClockIsSet(t *testing.T) {
	q, err := newQuery(parse(t, `CREATE CONTINUOUS QUERY q ON db BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1h) END`), time.UnixMilli(0))
	if err != nil {
		t.Fatal(err)
	}
	var runs []string
	term := newTerm(New(Options{}), runnerFunc(func(_ context.Context, s *ql.SelectStatement) error {
		from, to := spanOf(t, s)
		runs = append(runs, from.Format("02T15:04")+"-"+to.Format("02T15:04"))
		return nil
	}))
	look := func(now time.Time) {
		term.follow([]*Query{q}, now)
		term.begin(t.Context(), now)
		term.running.Wait()
	}
	look(time.Now())                                      // with a reading of the clock that nobody sets
	if due := term.mu.order[0].due; due != due.Round(0) { //nolint:revive // the reading is what is compared
		t.Errorf("due by a clock that does not go on while a machine sleeps: %s", due)
	}
	look(time.Date(2040, 1, 1, 12, 0, 1, 0, time.UTC)) // a clock that is wrong
	runs = nil
	for minute := range 121 {
		look(time.Date(2030, 5, 1, 12, 30+minute, 1, 0, time.UTC))
	}
	if got := strings.Join(runs, " "); got != "01T12:00-01T13:00 01T13:00-01T14:00" {
		t.Error(got)
	}
}

// TestEachWindowIsWritten: whatever EVERY, offset, zone and changes of clocks are, runs leave no time out, and end.
func TestEachWindowIsWritten(t *testing.T) {
	for _, text := range []string{
		`BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1h) TZ('Australia/Lord_Howe') END`, // clocks are changed by half an hour
		`RESAMPLE EVERY 2h BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1h) TZ('Europe/Berlin') END`,
		`BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(2h) TZ('Europe/Berlin') END`,
		`BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(5h) TZ('Europe/Berlin') END`,
		`BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1d, 8h) TZ('America/New_York') END`,
		`RESAMPLE EVERY 7h BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(5h) END`,
		`RESAMPLE EVERY 7m BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(5m, 1m) END`,
		`RESAMPLE EVERY 10m FOR 2h BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1h, 20m) TZ('Australia/Lord_Howe') END`,
	} {
		q, err := newQuery(parse(t, "CREATE CONTINUOUS QUERY q ON db "+text), time.UnixMilli(0))
		if err != nil {
			t.Fatal(err)
		}
		for _, begin := range []time.Time{time.Date(2024, 3, 8, 0, 0, 0, 0, time.UTC), time.Date(2024, 3, 29, 0, 0, 0, 0, time.UTC), time.Date(2024, 4, 5, 0, 0, 0, 0, time.UTC), time.Date(2024, 10, 25, 0, 0, 0, 0, time.UTC)} {
			var last time.Time
			runs := 0
			term := newTerm(New(Options{}), runnerFunc(func(_ context.Context, s *ql.SelectStatement) error {
				from, to := spanOf(t, s)
				if runs++; !last.IsZero() && last.Before(from) {
					t.Errorf("%s: nothing is written from %s to %s", text, last.In(q.schedule.location), from.In(q.schedule.location))
				}
				last = to
				return nil
			}))
			now, end := begin, begin.AddDate(0, 0, 4)
			looks := 0
			for ; now.Before(end); looks++ {
				term.follow([]*Query{q}, now)
				term.begin(t.Context(), now)
				term.running.Wait()
				if due := term.mu.order[0].due; due.After(now) {
					now = due
				} else {
					t.Fatalf("%s: it is due again at %s after a run at %s", text, due, now)
				}
			}
			if most := int(end.Sub(begin)/q.schedule.every) + 2; looks > most || end.Sub(last) > 2*max(q.schedule.interval, q.schedule.every)+2*time.Hour {
				t.Errorf("%s: %d runs, %d expected at most, the last one to %s", text, looks, most, last)
			}
		}
	}
}

// TestDroppedWhileItRuns: the run of a query that is dropped or made anew ends.
func TestDroppedWhileItRuns(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		set := newFolderSet(t, dir)
		running, most := 0, 0
		var mu sync.Mutex
		runner := runnerFunc(func(ctx context.Context, _ *ql.SelectStatement) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			running--
			mu.Unlock()
			return ctx.Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		service := New(Options{Set: set})
		go func() { defer close(ended); service.Run(ctx, runner) }()
		create := func(function string) {
			t.Helper()
			if err := set.Create(t.Context(), parse(t, `CREATE CONTINUOUS QUERY q ON db BEGIN SELECT `+function+`(v) INTO m FROM cpu GROUP BY time(1m) END`), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		create("max")
		sleepUntil(t, "00:01:01")
		if running != 1 {
			t.Fatal("it does not run")
		}
		if err := set.DropOf(t.Context(), "db"); err != nil {
			t.Fatal(err)
		}
		create("min")
		sleepUntil(t, "00:01:03")
		sleepUntil(t, "00:02:02")
		if running != 1 || most != 1 {
			t.Errorf("%d run, at most %d", running, most)
		}
		if err := set.DropOf(t.Context(), "db"); err != nil {
			t.Fatal(err)
		}
		sleepUntil(t, "00:02:05")
		if running != 0 {
			t.Error("a query that is dropped goes on")
		}
		if failed := testutil.ToFloat64(service.metrics.runs.WithLabelValues("failed")); failed != 0 {
			t.Errorf("%v failed", failed)
		}
		cancel()
		<-ended
	})
}

// TestOfAnotherRouter: what another router has made is dropped by one that was not told of it yet, and what it has
// dropped is made anew.
func TestOfAnotherRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.NewServer()
		one, other := NewSet(NewCluster(server.Open(shardmap.Seen{})), nil), server.Open(shardmap.Seen{})
		kept := NewCluster(other)
		late := NewSet(kept, nil)
		see := func() { // as a watch does
			t.Helper()
			view, err := other.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			kept.See(view)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		create := func(s *Set, name string) {
			t.Helper()
			ctx := t.Context()
			if err := s.Create(ctx, parse(t, `CREATE CONTINUOUS QUERY `+name+` ON db BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1m) END`), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		there := func() int {
			view, err := other.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return len(view.Queries)
		}
		see()
		create(one, "q")
		if err := late.Drop(t.Context(), "db", "q"); err != nil || there() != 0 {
			t.Errorf("%d are left: %v", there(), err)
		}
		create(one, "q")
		see()
		if err := one.Drop(t.Context(), "db", "q"); err != nil {
			t.Fatal(err)
		}
		if create(late, "q"); there() != 1 {
			t.Error("a query is said to be made that is not there")
		}
		create(one, "q2")
		if err := other.SwapQuery(t.Context(), "db/later", "", `{"format":2}`); err != nil {
			t.Fatal(err)
		}
		if err := other.SwapQuery(t.Context(), "db2/q", "", `{"format":2}`); err != nil {
			t.Fatal(err)
		}
		if err := late.DropOf(t.Context(), "db"); err != nil || there() != 1 {
			t.Errorf("%d are left: %v", there(), err)
		}
		if err := late.Drop(ended, "db", "none"); err == nil {
			t.Error("a store that is not asked says that there is no query")
		}
	})
}
