package continuous

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ql "github.com/influxdata/influxql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
)

// notes is a Runner that notes what it is to select.
type notes struct {
	mu      sync.Mutex
	ran     []string // time of the run, and what was selected
	took    time.Duration
	fails   func(s *ql.SelectStatement) error
	running int
	most    int // at once
}

func (n *notes) SelectInto(ctx context.Context, database string, s *ql.SelectStatement) (int64, error) {
	n.mu.Lock()
	n.running++
	n.most = max(n.most, n.running)
	n.ran = append(n.ran, fmt.Sprintf("%s %s: %s", time.Now().UTC().Format("15:04:05"), database, s))
	n.mu.Unlock()
	select {
	case <-time.After(n.took):
	case <-ctx.Done():
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running--
	if n.fails != nil {
		if err := n.fails(s); err != nil {
			return 0, err
		}
	}
	return 1, ctx.Err()
}

func (*notes) Kept(string) time.Duration { return 0 }

// fail has runs fail from now on; nil: they do not.
func (n *notes) fail(fails func(*ql.SelectStatement) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fails = fails
}

func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	ran := n.ran
	n.ran = nil
	return ran
}

// parse returns the statement that makes a query.
func parse(t *testing.T, text string) *ql.CreateContinuousQueryStatement {
	t.Helper()
	s, err := ql.ParseStatement(text)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*ql.CreateContinuousQueryStatement)
}

func newFolderSet(t *testing.T, dir string) *Set {
	t.Helper()
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return NewSet(f, slog.New(slog.DiscardHandler))
}

// sleepUntil sleeps to a time of the first day that a bubble has, and a bit.
func sleepUntil(t *testing.T, clock string) {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04:05", "2000-01-01 "+clock)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(at) + time.Second/2)
	synctest.Wait()
}

func expect(t *testing.T, n *notes, want ...string) {
	t.Helper()
	if got := n.take(); !slices.Equal(got, want) {
		t.Errorf("ran\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestService(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		set, n := newFolderSet(t, dir), &notes{}
		start := func() (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); New(Options{Set: set}).Run(ctx, n) }()
			return func() { cancel(); <-ended }
		}
		stop := start()
		sleepUntil(t, "01:00:10")
		const text = `CREATE CONTINUOUS QUERY q ON db BEGIN SELECT mean(v) INTO m FROM cpu WHERE host = 'a' OR host = 'b' AND time > now() - 1h GROUP BY time(1m) END`
		if err := set.Create(t.Context(), parse(t, text), time.Now()); err != nil {
			t.Fatal(err)
		}
		sleepUntil(t, "01:00:59")
		expect(t, n)
		run := func(at, from, to string) string {
			return fmt.Sprintf("01:%s db: SELECT mean(v) INTO m FROM cpu WHERE (host = 'a' OR host = 'b') AND time >= '2000-01-01T01:%s:00Z' AND time < '2000-01-01T01:%s:00Z' GROUP BY time(1m)", at, from, to)
		}
		sleepUntil(t, "01:01:05")
		expect(t, n, run("01:00", "00", "01"))
		sleepUntil(t, "01:02:05")
		expect(t, n, run("02:00", "01", "02"))

		// A failure is made up for.
		n.fail(func(*ql.SelectStatement) error { return errors.New("no") })
		sleepUntil(t, "01:03:00")
		if ran := n.take(); len(ran) != 1 || ran[0] != run("03:00", "02", "03") {
			t.Error(ran)
		}
		sleepUntil(t, "01:05:00")
		n.take()
		n.fail(nil)
		sleepUntil(t, "01:08:00")
		if ran := n.take(); len(ran) == 0 || !strings.Contains(ran[0], "time >= '2000-01-01T01:02:00Z'") || !strings.Contains(ran[len(ran)-1], "time < '2000-01-01T01:08:00Z'") {
			t.Error(strings.Join(ran, "\n"))
		}

		// So is a time in which no process was, and nothing from before the query was made.
		stop()
		n.take()
		sleepUntil(t, "01:20:30")
		set = newFolderSet(t, dir)
		stop = start()
		sleepUntil(t, "01:20:40")
		expect(t, n, run("20:31", "00", "20"))
		sleepUntil(t, "01:21:05")
		expect(t, n, run("21:00", "20", "21"))

		// One that is dropped runs no more, and another of its name begins anew.
		if err := set.Drop(t.Context(), "db", "q"); err != nil {
			t.Fatal(err)
		}
		sleepUntil(t, "01:23:05")
		expect(t, n)
		if err := set.Create(t.Context(), parse(t, `CREATE CONTINUOUS QUERY q ON db RESAMPLE FOR 3m BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1m) END`), time.Now()); err != nil {
			t.Fatal(err)
		}
		sleepUntil(t, "01:24:05")
		expect(t, n, "01:23:06 db: SELECT max(v) INTO m FROM cpu WHERE time >= '2000-01-01T01:21:00Z' AND time < '2000-01-01T01:23:00Z' GROUP BY time(1m)",
			"01:24:00 db: SELECT max(v) INTO m FROM cpu WHERE time >= '2000-01-01T01:21:00Z' AND time < '2000-01-01T01:24:00Z' GROUP BY time(1m)")
		stop()
	})
}

// TestFailureIsBounded: what has failed for more than an hour is given up, but for the last run.
func TestFailureIsBounded(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		set, n, registry := newFolderSet(t, dir), &notes{}, prometheus.NewRegistry()
		if err := set.Create(t.Context(), parse(t, `CREATE CONTINUOUS QUERY q ON db BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1m) END`), time.Now()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		service := New(Options{Set: set, Registerer: registry})
		n.fail(func(*ql.SelectStatement) error { return errors.New("no") })
		ended := make(chan struct{})
		go func() { defer close(ended); service.Run(ctx, n) }()
		sleepUntil(t, "03:00:00")
		tries := n.take()
		if len(tries) > 60 { // each minute would be 180
			t.Errorf("%d tries in three hours", len(tries))
		}
		n.fail(nil)
		sleepUntil(t, "03:10:00")
		ran := n.take()
		if len(ran) == 0 || strings.Contains(ran[0], "T01:") || !strings.Contains(ran[0], "time >= '2000-01-01T02:0") {
			t.Error(strings.Join(ran, "\n"))
		}
		if testutil.ToFloat64(service.metrics.givenUp) == 0 {
			t.Error("nothing is said of what was given up")
		}
		cancel()
		<-ended
	})
}

// TestParallel: queries that take long keep to their places, and none is passed over.
func TestParallel(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		set, n := newFolderSet(t, dir), &notes{took: 15 * time.Second}
		for i := range 6 {
			if err := set.Create(t.Context(), parse(t, fmt.Sprintf(`CREATE CONTINUOUS QUERY q%d ON db BEGIN SELECT max(v) INTO m%d FROM cpu GROUP BY time(1m) END`, i, i)), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); New(Options{Set: set, Parallel: 2}).Run(ctx, n) }()
		sleepUntil(t, "01:00:30")
		windows := map[string]int{}
		for _, ran := range n.take() {
			_, what, _ := strings.Cut(ran, "INTO ")
			windows[what[:2]]++
		}
		for i := range 6 {
			if got := windows[fmt.Sprintf("m%d", i)]; got < 55 {
				t.Errorf("query %d ran %d times in an hour", i, got)
			}
		}
		if n.most != 2 {
			t.Errorf("%d at once", n.most)
		}
		cancel()
		<-ended
	})
}

// TestElected: of two processes one runs the queries; when it ends the other goes on, and neither campaigns for nothing.
func TestElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.NewServer()
		type process struct {
			notes
			campaigns int
			stop      func()
			set       *Set
		}
		start := func(name string) *process {
			store := server.Open(shardmap.Seen{})
			kept, p := NewCluster(store), &process{}
			p.set = NewSet(kept, nil)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() {
				for view := range store.Watch(ctx) {
					kept.See(view)
				}
			})
			service := New(Options{Set: p.set, Campaign: func(ctx context.Context) (shardmap.Leadership, error) {
				p.campaigns++
				return store.Campaign(ctx, shardmap.ElectionQueries, name)
			}})
			running.Go(func() { service.Run(ctx, p) })
			p.stop = func() { cancel(); running.Wait(); _ = store.Close() }
			return p
		}
		one := start("one")
		sleepUntil(t, "00:00:30")
		two := start("two")
		sleepUntil(t, "00:01:10")
		if one.campaigns+two.campaigns != 0 {
			t.Error("they campaign where no query is")
		}
		if err := two.set.Create(t.Context(), parse(t, `CREATE CONTINUOUS QUERY q ON db BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1m) END`), time.Now()); err != nil {
			t.Fatal(err)
		}
		sleepUntil(t, "00:03:10")
		first, second := one, two
		if len(one.take()) == 0 {
			first, second = two, one
		}
		if len(second.take()) != 0 {
			t.Error("both run it")
		}
		first.take()
		first.stop()
		sleepUntil(t, "00:04:10")
		if ran := second.take(); len(ran) != 2 || !strings.Contains(ran[0], "T00:01:00Z' AND time < '2000-01-01T00:03:00Z'") || !strings.Contains(ran[1], "T00:03:00Z' AND time < '2000-01-01T00:04:00Z'") {
			t.Error(strings.Join(ran, "\n"))
		}
		if err := second.set.DropOf(t.Context(), "db"); err != nil {
			t.Fatal(err)
		}
		sleepUntil(t, "00:06:10")
		if ran := second.take(); len(ran) != 0 {
			t.Error("a query that is dropped runs", ran)
		}
		second.stop()
	})
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	set := newFolderSet(t, dir)
	now := time.UnixMilli(1_700_000_000_123)
	for text, want := range map[string]string{
		`CREATE CONTINUOUS QUERY q ON db BEGIN SELECT v INTO m FROM cpu END`:                                                          "aggregate",
		`CREATE CONTINUOUS QUERY q ON db BEGIN SELECT max(v) INTO cpu FROM cpu GROUP BY time(1m) END`:                                 "another measurement",
		`CREATE CONTINUOUS QUERY q ON db BEGIN SELECT max(v) INTO long.cpu FROM cpu GROUP BY time(1m) END`:                            "another measurement",
		`CREATE CONTINUOUS QUERY q ON db BEGIN SELECT max(v) INTO db.long.:MEASUREMENT FROM /.*/ GROUP BY time(1m) END`:               "another measurement",
		`CREATE CONTINUOUS QUERY q ON db BEGIN SELECT max(v) INTO cpu2 FROM /cpu/ GROUP BY time(1m) END`:                              "another measurement",
		`CREATE CONTINUOUS QUERY q ON db BEGIN SELECT max(v) INTO cpu FROM (SELECT v FROM cpu) GROUP BY time(1m) END`:                 "another measurement",
		`CREATE CONTINUOUS QUERY q ON db BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(100ms) END`:                                "each second",
		`CREATE CONTINUOUS QUERY q ON db RESAMPLE EVERY 10ms BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1m) END`:               "each second",
		`CREATE CONTINUOUS QUERY "` + strings.Repeat("x", 129) + `" ON db BEGIN SELECT max(v) INTO m FROM cpu GROUP BY time(1m) END`:  "128 bytes",
		`CREATE CONTINUOUS QUERY q ON db BEGIN SELECT max("` + strings.Repeat("x", 5000) + `") INTO m FROM cpu GROUP BY time(1m) END`: "4096",
	} {
		if err := set.Create(t.Context(), parse(t, text), now); !errors.Is(err, ErrQuery) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: %v, want %s", text, err, want)
		}
	}
	texts := map[string]string{}
	for name, text := range map[string]string{
		"a b/ä%": `RESAMPLE EVERY 30s FOR 1h BEGIN SELECT mean("a b") AS c, max(v) INTO other..:MEASUREMENT FROM /^c.*u$/ WHERE host =~ /a\/b/ AND x = 'it\'s' GROUP BY time(1m, 5s), * fill(3) TZ('Europe/Berlin') END`,
		"q":      `BEGIN SELECT max(v) INTO other.autogen.cpu FROM cpu, db..mem GROUP BY time(1m) END`,
	} {
		for range 2 { // twice the same is a success
			if err := set.Create(t.Context(), parse(t, `CREATE CONTINUOUS QUERY `+ql.QuoteIdent(name)+` ON "d/b" `+text), now); err != nil {
				t.Fatal(err)
			}
		}
		texts[name] = parse(t, `CREATE CONTINUOUS QUERY `+ql.QuoteIdent(name)+` ON "d/b" `+text).String()
	}
	if err := set.Create(t.Context(), parse(t, `CREATE CONTINUOUS QUERY q ON "d/b" BEGIN SELECT min(v) INTO m FROM cpu GROUP BY time(1m) END`), now); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if err := set.Create(t.Context(), parse(t, `CREATE CONTINUOUS QUERY q ON "default" BEGIN SELECT min(v) INTO m FROM cpu GROUP BY time(1m) END`), now); err != nil {
		t.Error(err)
	}
	for _, s := range []*Set{set, newFolderSet(t, dir)} {
		all := s.ByDatabase()
		of := all["d/b"]
		if len(of) != 2 || len(all[""]) != 1 || len(all) != 2 {
			t.Fatalf("%d of it", len(of))
		}
		for _, q := range of {
			if texts[q.Name] != q.Text || !q.created.Equal(now) {
				t.Errorf("%s is %s of %s", q.Name, q.Text, q.created)
			}
		}
	}
	if err := set.Drop(t.Context(), "d/b", "none"); err != nil {
		t.Error(err)
	}
	if err := set.DropOf(t.Context(), "d/b"); err != nil || len(newFolderSet(t, dir).all()) != 1 {
		t.Error(err)
	}
}

// TestUnreadableRecords: what a later version has written is not run, stays, and can be dropped.
func TestUnreadableRecords(t *testing.T) {
	dir := t.TempDir()
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Swap(t.Context(), "db/q", "", `{"format":2,"wings":true}`); err != nil {
		t.Fatal(err)
	}
	if err := f.Swap(t.Context(), "db/q", "x", ""); !errors.Is(err, shardmap.ErrQueryChanged) {
		t.Error(err)
	}
	if err := f.Swap(t.Context(), "db/q q", "", "x"); !errors.Is(err, shardmap.ErrQuery) {
		t.Error(err)
	}
	set := newFolderSet(t, dir)
	if all := set.all(); len(all) != 0 {
		t.Error(all)
	}
	if err := set.Create(t.Context(), parse(t, `CREATE CONTINUOUS QUERY q ON db BEGIN SELECT min(v) INTO m FROM cpu GROUP BY time(1m) END`), time.Now()); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if err := set.Drop(t.Context(), "db", "q"); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"{", `{"format":2}`, `{"format":1,"queries":{"a b":{}}}`} {
		if _, err := decodeFolder([]byte(text)); !errors.Is(err, ErrFolder) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := OpenFolder(filepath.Join(dir, "\x00")); err == nil {
		t.Error("a folder of no name is opened")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("db/q", `{"format":1,"query":"CREATE CONTINUOUS QUERY q ON db BEGIN SELECT min(v) INTO m FROM cpu GROUP BY time(1m) END","created_ms":1}`)
	f.Add("db/q", `{"format":1,"query":"DROP DATABASE db"}`)
	f.Fuzz(func(t *testing.T, id, text string) {
		q, err := decode(id, text)
		if err != nil {
			if !errors.Is(err, errFormat) {
				t.Fatal(err)
			}
			return
		}
		again, err := q.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(id, again); err != nil {
			t.Fatal(err)
		}
		if _, err := q.between(time.Unix(0, 0), time.Unix(60, 0)); err != nil {
			t.Fatal(err)
		}
	})
}
