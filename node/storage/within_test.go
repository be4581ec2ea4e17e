package storage

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// removeSome adds an entry that takes some samples of some series.
func (l *labLog) removeSome(keys []series.Key, fromMs, toMs int64) {
	var ids []uint32
	for _, key := range keys {
		ids = append(ids, uint32(slices.Index(l.head.ids, string(key))))
	}
	slices.Sort(ids)
	l.add(entry.Delete, entry.DeleteBody(ids, fromMs, toMs), func(m *slowShard) {
		for _, key := range keys {
			maps.DeleteFunc(m.samples[string(key)], func(at int64, _ uint64) bool { return at >= fromMs && at <= toMs })
		}
	})
}

// checkBetween makes sure that all series with samples in a range of time are listed.
func (n *labNode) checkBetween(what string, fromMs, toMs int64) {
	n.t.Helper()
	ctx, want, hosts := context.Background(), map[string]bool{}, map[string]bool{}
	for shard := range labShards {
		for key, samples := range n.logs[shard].at(n.appliedTo(shard)).contents() {
			for at := range samples {
				if at >= fromMs && at <= toMs {
					_, _, tags, err := series.Key(key).Parts(nil)
					if err != nil {
						n.t.Fatal(err)
					}
					want[key], hosts[string(tags[0].Value)] = true, true
					break
				}
			}
		}
	}
	for shard := range labShards {
		of := within(n.logs[shard].at(n.appliedTo(shard)).contents(), fromMs, toMs)
		if found, err := n.contentsBetween(shard, fromMs, toMs); err != nil || !maps.EqualFunc(found, of, maps.Equal[map[int64]uint64, map[int64]uint64]) {
			n.t.Fatalf("%s: shard %d from %d to %d: %s, %v", what, shard, fromMs, toMs, labDifference(of, found), err)
		}
	}
	dated := scan.Between(n.e, fromMs, toMs)
	got := map[string]bool{}
	if _, err := dated.Series(ctx, &scan.Selector{MetricAny: true}, 0, func(key series.Key) error {
		got[string(key)] = true
		return nil
	}); err != nil {
		n.t.Fatal(what, err)
	}
	values, err := dated.TagValues(ctx, "", "", "h", "", 0)
	if err != nil {
		n.t.Fatal(what, err)
	}
	names, err := dated.TagNames(ctx, "", "", "", 0)
	if err != nil {
		n.t.Fatal(what, err)
	}
	metrics, err := dated.Metrics(ctx, "", "", 0)
	if err != nil {
		n.t.Fatal(what, err)
	}
	for key := range want {
		if !got[key] {
			n.t.Fatalf("%s: %s has samples from %d to %d and is not listed", what, series.Key(key), fromMs, toMs)
		}
	}
	for host := range hosts {
		if !slices.Contains(values, host) {
			n.t.Fatalf("%s: the value %s is not listed", what, host)
		}
	}
	if listed := len(got) > 0; len(values) != len(got) || (len(names) > 0) != listed || (len(metrics) > 0) != listed {
		n.t.Fatalf("%s: %d series, but values %q, names %q, metrics %q", what, len(got), values, names, metrics)
	}
}

// forgetDays makes the folder one that a program has written last which keeps no marks of days.
// Those that another one has left there may be from before.
func (n *labNode) forgetDays(rng *rand.Rand) {
	n.t.Helper()
	m, err := manifest.Read(n.fs, "data")
	if err != nil {
		n.t.Fatal(err)
	}
	m.Index.DaysByMonth = false
	if err := manifest.Write(n.fs, "data", m); err != nil {
		n.t.Fatal(err)
	}
	n.days(func(name string) {
		if rng.IntN(2) == 0 {
			if err := n.fs.Remove(name); err != nil {
				n.t.Fatal(err)
			}
		}
	})
}

// days visits the files of marks of days.
func (n *labNode) days(visit func(name string)) {
	n.t.Helper()
	names, err := n.fs.List("data/series")
	if err != nil {
		n.t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "days-") {
			visit("data/series/" + name)
		}
	}
}

// TestFolderWithoutDays: a folder that was written without marks of days is read whole, and
// queries look at series of their days alone in months that begin afterwards.
func TestFolderWithoutDays(t *testing.T) {
	const dayMs = 24 * 3600_000
	rng := rand.New(rand.NewPCG(1, 1))
	logs := newLabLogs()
	n := newLabNode(t, logs)
	n.hosts = [labShards]bool{true, true, true}
	dated := func(fromMs, toMs int64) int64 {
		t.Helper()
		n.checkBetween("", fromMs, toMs)
		count, err := scan.Between(n.e, fromMs, toMs).Series(context.Background(), &scan.Selector{MetricAny: true}, 0, func(series.Key) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	put := func(keys []series.Key, timeMs int64) {
		logs[0].put(keys, timeMs)
		n.apply(0, 100)
	}
	const oldMs = int64(1_700_000_000_000) // in the middle of a month
	keys := logs[0].keys
	put(keys[:4], oldMs)
	put(keys[4:8], oldMs+2*dayMs)
	if err := n.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := n.e.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := dated(oldMs, oldMs); got != 4 {
		t.Errorf("%d series of a day, want 4", got)
	}
	put(keys[6:10], oldMs+60*dayMs) // not flushed, in a month that has no mark in a segment
	n.cut(rng)
	n.forgetDays(rng)
	n.open()
	if got := dated(oldMs, oldMs); got < 8 {
		t.Errorf("%d series of a day that is not known, want all", got)
	}
	for range 2 { // the second time what is in pages by now is flushed
		if err := n.checkpoint(); err != nil {
			t.Fatal(err)
		}
		if err := n.e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	newMs := oldMs + 150*dayMs
	put(keys[:1], newMs)
	put(keys[1:2], newMs+dayMs)
	for range 2 {
		if got := dated(oldMs, oldMs); got != 8 {
			t.Errorf("%d series of a day of a month whose days are not known, want the month's 8", got)
		}
		if got := dated(newMs, newMs); got != 1 {
			t.Errorf("%d series of a day, want 1", got)
		}
		if err := n.checkpoint(); err != nil {
			t.Fatal(err)
		}
		n.crash(rng)
	}
	n.end()
}

// TestInstalledSeriesAreFoundOnAllDays: a segment of a month brings samples of many days.
func TestInstalledSeriesAreFoundOnAllDays(t *testing.T) {
	const dayMs = 24 * 3600_000
	logs := newLabLogs()
	from, to := newLabNode(t, logs), newLabNode(t, logs)
	defer from.end()
	defer to.end()
	from.hosts[0] = true
	var times []int64
	for day := range int64(3) {
		times = append(times, 1_699_000_000_000+10*day*dayMs) // of one month
		logs[0].put(logs[0].keys, times[day])
	}
	from.apply(0, 100)
	from.seal()
	from.compactAll()
	if segments := from.e.files.Current().Segments; len(segments) != 1 {
		t.Fatalf("%d segments, want that of the month", len(segments))
	}
	if err := send(from, to, 0, whole); err != nil {
		t.Fatal(err)
	}
	for _, at := range times {
		if found, err := to.contentsBetween(0, at, at); err != nil || len(found) != len(logs[0].keys) {
			t.Errorf("%d of %d series at %d, %v", len(found), len(logs[0].keys), at, err)
		}
	}
}

// TestRetentionKeepsMarksOfArrivals: a shard whose own cut is earlier arrives while retention
// forgets months, after it has taken its cut.
func TestRetentionKeepsMarksOfArrivals(t *testing.T) {
	const dayMs = 24 * 3600_000
	const oldMs, newMs = int64(1_690_000_000_000), int64(1_690_000_000_000) + 200*dayMs
	for _, published := range []bool{true, false} {
		logs := newLabLogs()
		from, to := newLabNode(t, logs), newLabNode(t, logs)
		from.hosts[0], to.hosts[1] = true, true
		logs[0].put(logs[0].keys, oldMs)
		from.apply(0, 100)
		logs[1].put(logs[1].keys, newMs)
		logs[1].add(entry.Retention, entry.RetentionBody(newMs-dayMs), func(m *slowShard) { m.cutMs = newMs - dayMs })
		to.apply(1, 100)
		cutMs := to.e.RetentionCut()
		if published {
			if err := send(from, to, 0, whole); err != nil {
				t.Fatal(err)
			}
			if err := to.e.forgetSeriesBefore(cutMs); err != nil {
				t.Fatal(err)
			}
		} else if err := installAround(from, to, func() error { return to.e.forgetSeriesBefore(cutMs) }); err != nil {
			t.Fatal(err)
		}
		if found, err := to.contentsBetween(0, oldMs, oldMs); err != nil || len(found) != len(logs[0].keys) {
			t.Errorf("%d of %d series after retention, published before it: %v, %v", len(found), len(logs[0].keys), published, err)
		}
		from.end()
		to.end()
	}
}

// installAround installs shard 0 and does something when its days are marked and it is not
// published yet.
func installAround(from, to *labNode, do func() error) error {
	x, err := from.e.ExportShard(0)
	if err != nil {
		return err
	}
	defer x.Close()
	hit := to.e.hit
	defer func() { to.e.hit = hit }()
	to.e.hit = func(failpoint string) error {
		if failpoint == transfer.FailInstallMarked {
			return do()
		}
		return hit(failpoint)
	}
	info, err := to.e.InstallShard(context.Background(), 0, uint64(len(to.written)), x.OpenAt(0))
	if err != nil {
		return err
	}
	to.hosts[0], to.through[0] = true, info.Through
	return nil
}

// TestListsOfARange: series with samples in a range of time are listed for it, whatever has
// been flushed, deleted or lost; and once all is flushed, none is for a month that has no
// samples.
func TestListsOfARange(t *testing.T) {
	const dayMs = 24 * 3600_000
	spared := 0
	for seed := range uint64(storagetest.Seeds(5)) {
		rng := rand.New(rand.NewPCG(seed, 9))
		logs := newLabLogs()
		n := newLabNode(t, logs)
		n.hosts = [labShards]bool{true, true, true}
		nowMs := int64(1_700_000_000_000)
		ranges := func(what string) {
			for range 6 {
				fromMs := nowMs - rng.Int64N(300*dayMs)
				toMs := min(fromMs+rng.Int64N(100*dayMs), scan.TimeMsMax)
				if rng.IntN(4) == 0 {
					toMs = scan.TimeMsMax
				}
				n.checkBetween(what, fromMs, toMs)
			}
		}
		for round := range 30 {
			l := logs[rng.IntN(labShards)]
			nowMs += rng.Int64N(10 * dayMs)
			first := rng.IntN(len(l.keys))
			some := l.keys[first : first+1+rng.IntN(len(l.keys)-first)]
			switch {
			case rng.IntN(4) > 0:
				l.put(some, nowMs)
			case rng.IntN(2) == 0:
				l.put(some, nowMs-rng.Int64N(100*dayMs)) // late
			default:
				known := slices.DeleteFunc(slices.Clone(some), func(key series.Key) bool { return !slices.Contains(l.head.ids, string(key)) })
				if len(known) > 0 {
					l.removeSome(known, nowMs-rng.Int64N(90*dayMs), nowMs)
				}
			}
			for shard := range logs {
				n.apply(shard, 100)
			}
			what := fmt.Sprintf("seed %d, round %d", seed, round)
			ranges(what)
			switch rng.IntN(8) {
			case 0:
				n.cut(rng)
				if rng.IntN(3) == 0 {
					n.forgetDays(rng)
				}
				n.open()
				for shard := range logs {
					n.apply(shard, 100)
				}
			case 1, 2:
				if err := n.checkpoint(); err != nil {
					t.Fatal(err)
				}
			case 3, 4:
				if err := n.e.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			ranges(what + ", later")
		}
		spared += n.settled(func() { ranges(fmt.Sprintf("seed %d, settled", seed)) })
		n.end()
	}
	if spared == 0 {
		t.Error("no list was any shorter")
	}
}

// settled brings all samples into segments, and returns for how many series a list of a month
// without samples was shorter.
func (n *labNode) settled(check func()) (spared int) {
	n.t.Helper()
	for range 3 {
		n.end()
		n.open()
		if err := n.checkpoint(); err != nil {
			n.t.Fatal(err)
		}
		if err := n.e.Flush(); err != nil {
			n.t.Fatal(err)
		}
	}
	check()
	all, _ := n.e.Series(context.Background(), &scan.Selector{MetricAny: true}, 0, func(series.Key) error { return nil })
	none, err := scan.Between(n.e, 0, 1).Series(context.Background(), &scan.Selector{MetricAny: true}, 0, func(series.Key) error { return nil })
	if err != nil || none != 0 && all > 0 {
		n.t.Fatalf("%d of %d series are listed for 1970, %v", none, all, err)
	}
	return int(all - none)
}
