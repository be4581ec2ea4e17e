package metadata

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
)

func say(c *Catalog, database, metric, help string) {
	c.KeepMetadata([]byte(database), []byte(metric), "gauge", []byte(help), nil)
}

func helpOf(c *Catalog, database, metric string) string {
	for _, m := range c.Metadata(database, metric, 0) {
		return m.Help
	}
	return "none"
}

// TestCatalogOfCluster: what one router hears all answer, also those that come later, and a cluster that was away for a
// while; two that hear different things all the time change it once in an hour.
func TestCatalogOfCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.NewServer()
		ctx, cancel := context.WithCancel(t.Context())
		run := func() *Catalog {
			c, store := &Catalog{}, server.Open(shardmap.Seen{})
			go c.Run(ctx, store, time.Now, slog.New(slog.DiscardHandler))
			return c
		}
		one, two := run(), run()
		say(one, "", "up", "one")
		say(two, "", "down", "two")
		say(two, "b", "up", strings.Repeat("ä", 600)) // is cut within a rune
		time.Sleep(4 * roundEvery)
		for _, c := range []*Catalog{one, two, run()} {
			time.Sleep(time.Second)
			if a, b, d := helpOf(c, "", "up"), helpOf(c, "", "down"), helpOf(c, "b", "up"); a != "one" || b != "two" || d != strings.Repeat("ä", 512) {
				t.Errorf("%q %q %q", a, b, d)
			}
		}
		answers := map[string]int{}
		for range 10 * 60 { // every minute, for ten hours
			say(one, "", "up", "old version")
			say(two, "", "up", "new version")
			time.Sleep(time.Minute)
			if a, b := helpOf(one, "", "up"), helpOf(two, "", "up"); a == b {
				answers[a]++
			}
		}
		if together := answers["old version"] + answers["new version"]; together < 590 {
			t.Errorf("both answer the same in %d of 600 minutes: %v", together, answers)
		}
		view, _, err := server.Open(shardmap.Seen{}).Metadata(ctx, 0)
		if err != nil || len(view) != 2 || view[0].Revision+view[1].Revision > 60 {
			t.Errorf("%d records after %d and %d changes, %v", len(view), view[0].Revision, view[1].Revision, err)
		}
		time.Sleep((unheardDays + 3) * 24 * time.Hour)
		if a, b := helpOf(one, "", "up"), helpOf(run(), "b", "up"); a != "none" || b != "none" {
			t.Errorf("what nobody says is still %q, %q", a, b)
		}
		time.Sleep(3 * roundEvery)
		if view, _, err = server.Open(shardmap.Seen{}).Metadata(ctx, 0); err != nil || len(view) != 0 {
			t.Errorf("%d records are left, %v", len(view), err)
		}
		cancel()
		synctest.Wait()
	})
}

// TestCatalogAfterFaults: a store that was away, set back or emptied is filled again by what is heard.
func TestCatalogAfterFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.NewServer()
		ctx, cancel := context.WithCancel(t.Context())
		stores, catalogs := []*memstore.Store{}, []*Catalog{}
		for range 3 {
			c, store := &Catalog{}, server.Open(shardmap.Seen{})
			go c.Run(ctx, store, time.Now, slog.New(slog.DiscardHandler))
			stores, catalogs = append(stores, store), append(catalogs, c)
		}
		random := rand.New(rand.NewPCG(3, 4))
		snapshot := server.Snapshot()
		for range 300 {
			switch random.IntN(20) {
			case 0:
				snapshot = server.Snapshot()
			case 1:
				server.Restore(snapshot)
			case 2, 3:
				stores[random.IntN(3)].SetReachable(random.IntN(2) == 0)
			}
			n := random.IntN(30)
			say(catalogs[random.IntN(3)], fmt.Sprint("d", n%3), fmt.Sprint("m", n), fmt.Sprint(n))
			time.Sleep(time.Duration(random.IntN(40)) * time.Second)
		}
		for i := range stores {
			stores[i].SetReachable(true)
		}
		for range 5 { // all is said again, as Prometheus does
			for n := range 30 {
				say(catalogs[n%3], fmt.Sprint("d", n%3), fmt.Sprint("m", n), fmt.Sprint(n))
			}
			time.Sleep(time.Minute)
		}
		late := &Catalog{}
		go late.Run(ctx, server.Open(shardmap.Seen{}), time.Now, slog.New(slog.DiscardHandler))
		time.Sleep(time.Second)
		for i, c := range append(catalogs, late) {
			wantBounded(t, c)
			for n := range 30 {
				if got := helpOf(c, fmt.Sprint("d", n%3), fmt.Sprint("m", n)); got != fmt.Sprint(n) {
					t.Errorf("router %d knows %q of m%d", i, got, n)
				}
			}
		}
		cancel()
		synctest.Wait()
	})
}

// TestCatalogFolder: a server on its own knows after a restart what it knew when it stopped.
func TestCatalogFolder(t *testing.T) {
	dir := t.TempDir()
	run := func(c *Catalog) {
		t.Helper()
		folder, err := OpenFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // there is a last round
		c.Run(ctx, folder, time.Now, slog.New(slog.DiscardHandler))
	}
	first := &Catalog{}
	say(first, "", "up", "yes")
	say(first, "b", "up", "no")
	run(first)
	second := &Catalog{}
	say(second, "", "new", "also")
	run(second)
	third := &Catalog{}
	run(third)
	for _, want := range [][3]string{{"", "up", "yes"}, {"b", "up", "no"}, {"", "new", "also"}} {
		if got := helpOf(third, want[0], want[1]); got != want[2] {
			t.Errorf("%q of %v", got, want)
		}
	}
	for _, bad := range []string{
		"{", "[]", "null", `{"format":2}`, `{"format":1,"records":{"a":{"revision":0,"text":"eA=="}}}`, `{"format":1,"records":{"` + strings.Repeat("x", 129) + `":{"revision":1,"text":"eA=="}}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, FolderFile), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFolder(dir); !errors.Is(err, ErrFolder) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	good, err := encodeRecord(recordContent{Version: recordVersion, Metrics: []recordMetric{{Metric: "m", Type: "gauge", Unit: "s", Help: "h", Day: 20000}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decodeRecord(text)
		if err != nil {
			return
		}
		again, err := encodeRecord(r)
		if err != nil {
			t.Fatal(err)
		}
		same, err := decodeRecord(again)
		if err != nil || fmt.Sprint(same) != fmt.Sprint(r) {
			t.Fatalf("%v became %v, %v", r, same, err)
		}
		var c Catalog
		c.load(shardmap.MetadataRecord{Database: "d", Revision: 1, Text: bytes.Clone(text)}, r)
		wantBounded(t, &c)
	})
}

// countingStore counts what is written.
type countingStore struct {
	Store
	swaps int
}

func (s *countingStore) SwapMetadata(ctx context.Context, record shardmap.MetadataRecord) (int64, error) {
	s.swaps++
	return s.Store.SwapMetadata(ctx, record)
}

// TestRoundIsBounded: many databases with little each are written in several rounds.
func TestRoundIsBounded(t *testing.T) {
	const databases = 2*roundRecordsMax + 1
	c, store := &Catalog{}, &countingStore{Store: memstore.NewServer().Open(shardmap.Seen{})}
	f := follower{catalog: c, store: store, log: slog.New(slog.DiscardHandler)}
	for i := range databases {
		say(c, fmt.Sprint(i), "up", "help")
	}
	now := time.Unix(1_800_000_000, 0)
	for _, want := range []int{roundRecordsMax, 2 * roundRecordsMax, databases, databases} {
		if f.round(t.Context(), now); store.swaps != want {
			t.Fatalf("%d records are written, want %d", store.swaps, want)
		}
	}
}

// TestHeardAfterRemoval: what is heard of a database whose record was just taken away is written at once, as a new one.
func TestHeardAfterRemoval(t *testing.T) {
	c, server := &Catalog{}, memstore.NewServer()
	f := follower{catalog: c, store: server.Open(shardmap.Seen{}), log: slog.New(slog.DiscardHandler)}
	now := time.Unix(1_800_000_000, 0)
	say(c, "a", "up", "help")
	f.round(t.Context(), now)
	now = now.Add((unheardDays + 1) * 24 * time.Hour)
	f.round(t.Context(), now)
	say(c, "a", "up", "again")
	f.round(t.Context(), now)
	if records, _, err := f.store.Metadata(t.Context(), 0); err != nil || len(records) != 1 {
		t.Errorf("%d records: %v", len(records), err)
	}
}

// failingStore can be asked for nothing.
type failingStore struct{ Store }

func (failingStore) Metadata(context.Context, int64) ([]shardmap.MetadataRecord, int64, error) {
	return nil, 0, errors.New("away")
}

// TestCatalogCounts: what there is no room for, and rounds that failed, can be seen.
func TestCatalogCounts(t *testing.T) {
	c := &Catalog{}
	for i := range databaseMetricsMax + 3 {
		say(c, "", fmt.Sprint(i), "")
	}
	f := follower{catalog: c, store: failingStore{}, log: slog.New(slog.DiscardHandler)}
	f.round(t.Context(), time.Unix(1_800_000_000, 0))
	want := `
# HELP tickmesh_metadata_left_out_total Times that what a writer said of a metric was not kept, as there was no room.
# TYPE tickmesh_metadata_left_out_total counter
tickmesh_metadata_left_out_total 3
# HELP tickmesh_metadata_rounds_failed_total Rounds in which what metrics mean could not be read from where it is kept, or not all of it be written there.
# TYPE tickmesh_metadata_rounds_failed_total counter
tickmesh_metadata_rounds_failed_total 1
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "tickmesh_metadata_left_out_total", "tickmesh_metadata_rounds_failed_total"); err != nil {
		t.Error(err)
	}
}
