package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
)

// put adds an entry with a sample of each of some series.
func (l *labLog) put(keys []series.Key, timeMs int64) {
	var e series.BatchEncoder
	for _, key := range keys {
		e.Append(e.Define(key), timeMs, 1, 0)
	}
	batch := e.AppendTo(nil)
	l.add(entry.Samples, append(entry.AppendBatchHeader(entry.AppendTime(nil, timeMs), series.BatchID{}, len(batch)), batch...), func(m *slowShard) {
		for _, key := range keys {
			m.put(string(key), timeMs, 1)
		}
	})
}

// removeAll adds an entry that takes all samples of some series.
func (l *labLog) removeAll(keys []series.Key) {
	var ids []uint32
	for _, key := range keys {
		ids = append(ids, uint32(slices.Index(l.head.ids, string(key))))
	}
	slices.Sort(ids)
	l.add(entry.Delete, entry.DeleteBody(ids, scan.TimeMsMin, scan.TimeMsMax), func(m *slowShard) {
		for _, key := range keys {
			delete(m.samples, string(key))
		}
	})
}

// checkLists compares what is listed with the series that have samples.
func (n *labNode) checkLists(what string) {
	n.t.Helper()
	ctx, want := context.Background(), map[string]bool{}
	hosts, metrics, databases := map[string]bool{}, map[string]bool{}, []string(nil)
	for shard := range labShards {
		for key := range n.logs[shard].at(n.appliedTo(shard)).contents() {
			_, metric, tags, err := series.Key(key).Parts(nil)
			if err != nil {
				n.t.Fatal(err)
			}
			want[key], metrics[string(metric)], hosts[string(tags[0].Value)], databases = true, true, true, []string{""}
		}
	}
	got := 0
	total, err := n.e.Series(ctx, &scan.Selector{MetricAny: true}, 0, func(key series.Key) error {
		got++
		if !want[string(key)] {
			return fmt.Errorf("%s has no sample", key)
		}
		return nil
	})
	if err != nil || got != len(want) || total != int64(got) {
		n.t.Fatalf("%s: %d series (%d) of %d, %v", what, got, total, len(want), err)
	}
	for _, list := range []struct {
		what string
		want int
		list func() ([]string, error)
	}{
		{"values", len(hosts), func() ([]string, error) { return n.e.TagValues(ctx, "", "", "h", "", 0) }},
		{"metrics", len(metrics), func() ([]string, error) { return n.e.Metrics(ctx, "", "", 0) }},
		{"names", len(databases), func() ([]string, error) { return n.e.TagNames(ctx, "", "", "", 0) }},
		{"databases", len(databases), func() ([]string, error) { return n.e.Databases(ctx) }},
	} {
		if names, err := list.list(); err != nil || len(names) != list.want {
			n.t.Fatalf("%s: %s are %q, want %d, %v", what, list.what, names, list.want, err)
		}
	}
	if count, err := n.e.NamesOf(nil).Count(ctx, ""); err != nil || count != int64(len(want)) {
		n.t.Fatalf("%s: %d series are counted, want %d, %v", what, count, len(want), err)
	}
}

// TestDeletedSeriesAreNotListed: whose samples a delete has taken is not listed from then on,
// through checkpoints, flushes, ends and power cuts, until it has a sample again.
func TestDeletedSeriesAreNotListed(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(5)) {
		rng := rand.New(rand.NewPCG(seed, 7))
		logs := newLabLogs()
		n := newLabNode(t, logs)
		n.hosts = [labShards]bool{true, true, true}
		for round := range 40 {
			l := logs[rng.IntN(labShards)]
			some := l.keys[:1+rng.IntN(len(l.keys))]
			known := slices.DeleteFunc(slices.Clone(some), func(key series.Key) bool { return !slices.Contains(l.head.ids, string(key)) })
			l.nowMs += rng.Int64N(20 * 24 * 3600_000)
			switch {
			case rng.IntN(3) > 0 || len(known) == 0:
				l.put(some, l.nowMs)
			case rng.IntN(4) == 0: // everything there is
				for _, l := range logs {
					var all []series.Key
					for _, id := range l.head.ids {
						all = append(all, series.Key(id))
					}
					l.removeAll(all)
				}
			default:
				l.removeAll(known)
			}
			for shard := range logs {
				n.apply(shard, 100)
			}
			what := fmt.Sprintf("seed %d, round %d", seed, round)
			n.checkLists(what)
			switch rng.IntN(8) {
			case 0:
				n.synced.Store(n.length.Load())
				n.end()
				n.open()
			case 1:
				n.crash(rng)
			case 2:
				if err := n.checkpoint(); err != nil {
					t.Fatal(err)
				}
			case 3:
				if err := n.e.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			n.checkLists(what + ", later")
			for shard := range logs {
				n.apply(shard, 100) // what the power cut has taken
			}
			n.check(what)
		}
		n.end()
	}
}

// TestLostDeleteHidesNothing: when a power cut takes the end of the log, and with it a delete,
// the samples that it had taken are found again.
func TestLostDeleteHidesNothing(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 8))
		logs := newLabLogs()
		n := newLabNode(t, logs)
		n.hosts[0] = true
		l := logs[0]
		l.put(l.keys, l.nowMs)
		n.apply(0, 1)
		for range 2 { // so that the sample is before what is replayed
			if err := n.checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
		l.removeAll(l.keys)
		n.apply(0, 1)
		n.checkLists("deleted")
		n.e.options.SyncLog = func() error { return syscall.EIO }
		if err := n.checkpoint(); !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		n.crash(rng)
		n.checkLists("after the power cut")
		n.check(fmt.Sprintf("seed %d", seed))
		n.end()
	}
}

// TestDeleteBehindAGap: a delete that the log says behind an entry that it has lost hits no series
// but those that it means.
func TestDeleteBehindAGap(t *testing.T) {
	const timeMs = int64(1_700_000_000_000)
	l := newLabLog(0)
	for _, key := range l.keys[:5] {
		l.put([]series.Key{key}, timeMs)
	}
	l.removeAll(l.keys[:1]) // known before the gap
	l.removeAll(l.keys[3:4])
	n := newLabNode(t, newLabLogs())
	defer n.end()
	for i := range l.entries {
		if i == 2 {
			continue // lost: those that it and later ones define get other ids
		}
		if err := n.e.Replay(uint64(i), &l.entries[i].entry); err != nil {
			t.Fatal(err)
		}
	}
	if !n.e.DoubtsIDs() {
		t.Fatal("no gap was found")
	}
	n.e.TrustIDs()
	found, err := n.contents(0)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, false, true, true} {
		if got := found[string(l.keys[i])] != nil; got != want {
			t.Errorf("series %d is there: %v, want %v", i, got, want)
		}
	}
}
