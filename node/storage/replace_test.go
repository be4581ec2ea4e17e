package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// compactAll merges until there is nothing to do, at a time when all is old.
func (n *labNode) compactAll() {
	n.t.Helper()
	for {
		did, err := n.e.Compact(context.Background(), n.logs[0].nowMs+400*24*3600_000)
		if err != nil {
			n.t.Fatal(err)
		}
		if !did {
			return
		}
	}
}

// seal takes everything into segments.
func (n *labNode) seal() {
	n.t.Helper()
	for range 2 { // the second one names the present end of the log
		if err := n.checkpoint(); err != nil {
			n.t.Fatal(err)
		}
	}
	if err := n.e.Flush(); err != nil {
		n.t.Fatal(err)
	}
}

// TestMergesForgetTheOldReplica: the sender has deleted samples and forgotten that it
// did. The receiver's old replica has them, and its segments are merged with those of
// the new one: they must not come back.
func TestMergesForgetTheOldReplica(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 9))
	logs := newLabLogs()
	from, to := newLabNode(t, logs), newLabNode(t, logs)
	for _, n := range []*labNode{from, to} {
		n.hosts[0], n.hosts[1] = true, true
	}
	for range 30 {
		logs[0].write(rng)
		logs[1].write(rng)
	}
	for shard := range 2 {
		from.apply(shard, math.MaxInt)
		to.apply(shard, math.MaxInt)
	}
	to.seal()
	logs[0].add(entry.Delete, entry.DeleteBody([]uint32{0, 1, 2}, math.MinInt64, math.MaxInt64), func(m *slowShard) {
		for _, key := range m.ids[:3] {
			delete(m.samples, key)
		}
	})
	from.apply(0, math.MaxInt)
	from.seal()
	from.compactAll()
	if from.e.Tombstones() > 0 {
		t.Fatal("the delete is not forgotten")
	}
	if err := send(from, to, 0, whole); err != nil {
		t.Fatal(err)
	}
	to.check("installed")
	for range 5 {
		logs[1].write(rng)
		to.apply(1, math.MaxInt)
		to.seal()
	}
	to.compactAll()
	to.check("merged")
	to.crash(rng)
	to.check("after a crash")
	both := func(r *segment.Reader) bool { // what the old replica had, and what came after the new one
		return r.Meta().SequenceLow == manifest.SequenceOf(1) && r.Meta().SequenceHigh > manifest.SequenceOf(2)
	}
	if segments := to.e.files.Current().Segments; !slices.ContainsFunc(segments, both) || len(segments) > 2*3 {
		t.Errorf("%d segments of two months are left, or no merge has met both replicas", len(segments))
	}
	from.end()
	to.end()
}

// TestDroppedShardIsReclaimed drops two of three shards: they are gone at once for
// queries, and from the disk after merges. When one comes back its ids are the same.
func TestDroppedShardIsReclaimed(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 9))
	logs := newLabLogs()
	n, other := newLabNode(t, logs), newLabNode(t, logs)
	for shard := range labShards {
		for range 40 {
			logs[shard].write(rng)
		}
		n.apply(shard, math.MaxInt)
		n.hosts[shard] = true
	}
	other.hosts[0] = true
	other.apply(0, math.MaxInt)
	n.seal()
	x, err := n.e.ExportShard(0) // it outlives the replica
	if err != nil {
		t.Fatal(err)
	}
	before := n.e.Stats().SegmentBytes
	for shard := range 2 {
		if stats := n.e.ShardStats(uint16(shard)); !stats.Hosted || stats.SegmentBytes == 0 || stats.Applied != 40 {
			t.Fatalf("%+v", stats)
		}
		if err := n.e.DropShard(uint16(shard), uint64(len(n.written))); err != nil {
			t.Fatal(err)
		}
		n.hosts[shard] = false
		want := ShardStats{Series: 12, CutMs: retention.NoCut}
		got := n.e.ShardStats(uint16(shard))
		if got.HotBytes = 0; got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if _, err := n.e.ExportShard(uint16(shard)); !errors.Is(err, series.ErrUnavailable) {
			t.Fatalf("export of what is not there: %v", err)
		}
	}
	n.check("dropped")
	n.compactAll()
	n.check("reclaimed")
	if after := n.e.Stats().SegmentBytes; after > before/2 {
		t.Errorf("%d of %d bytes are left", after, before)
	}
	if _, err := other.e.InstallShard(context.Background(), 0, uint64(len(other.written)), x.OpenAt(0)); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	n.crash(rng)
	n.check("after a crash")
	if err := send(other, n, 0, whole); err != nil {
		t.Fatal(err)
	}
	n.check("back again")
	equalDigests(t, []*labNode{n, other}, logs, 0)
	n.end()
	other.end()
}

// TestInstallKnowsOtherIDs refuses a stream in which ids mean other series.
func TestInstallKnowsOtherIDs(t *testing.T) {
	define := func(n *labNode, keys ...int) {
		log := n.logs[0]
		var e series.BatchEncoder
		for _, i := range keys {
			e.Append(e.Define(log.keys[i]), log.nowMs, 1, 0)
		}
		batch := e.AppendTo(nil)
		body := append(entry.AppendBatchHeader(entry.AppendTime(nil, 0), series.BatchID{}, len(batch)), batch...)
		log.add(entry.Samples, body, func(m *slowShard) {
			for _, i := range keys {
				m.put(string(log.keys[i]), log.nowMs, 1)
			}
		})
		n.apply(0, math.MaxInt)
	}
	n := newLabNode(t, newLabLogs())
	n.hosts[0] = true
	define(n, 0, 1, 2)
	for name, keys := range map[string][]int{"in another order": {1, 0, 2, 3}, "others": {0, 1, 5}, "fewer": {0, 1}} {
		other := newLabNode(t, newLabLogs())
		other.hosts[0] = true
		define(other, keys...)
		if err := send(other, n, 0, whole); !errors.Is(err, transfer.ErrConflict) {
			t.Errorf("series %s: %v", name, err)
		}
		other.end()
	}
	other := newLabNode(t, newLabLogs())
	other.hosts[0] = true
	define(other, 0, 1, 2)
	define(n, 0)
	if err := send(other, n, 0, whole); !errors.Is(err, transfer.ErrBehind) {
		t.Errorf("an older stream: %v", err)
	}
	other.end()
	n.check("after refusals")
	n.end()
}

// TestReplaceFailsAtEveryPlace makes installing and dropping fail at each place, and
// takes the power away there: the replica is the old one or the new one.
func TestReplaceFailsAtEveryPlace(t *testing.T) {
	for i, name := range transfer.MovementFailpoints() {
		t.Run(strings.ReplaceAll(name, "/", ":"), func(t *testing.T) {
			t.Parallel()
			failures := 0
			replaceFails(t, uint64(i), func(to *labNode) {
				points, err := failpoint.Parse(name+"=error@1", Failpoints())
				if err != nil {
					t.Fatal(err)
				}
				to.e.hit = points.Hit
			}, func(to *labNode, err error) {
				to.e.hit = (*failpoint.Set)(nil).Hit
				if err != nil {
					failures++
				}
			})
			if failures == 0 {
				t.Error("it was never passed")
			}
		})
	}
}

// TestReplaceOnFailingDisk lets one operation of the disk fail, each in turn.
func TestReplaceOnFailingDisk(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(10)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			nth := int64(seed)
			replaceFails(t, seed, func(to *labNode) {
				nth += 7
				to.faultIn.Store(nth)
			}, func(to *labNode, _ error) { to.faultIn.Store(0) })
		})
	}
}

// replaceFails installs and drops a shard by turns, while begin lets something fail
// until end, and follows which replica is there by the number of replacements.
func replaceFails(t *testing.T, seed uint64, begin func(*labNode), end func(*labNode, error)) {
	from, to, rng := labPair(t, 100+seed)
	defer from.end()
	for round := range 6 {
		before, hosted, through := to.replacements(), to.hosts[0], to.through[0]
		drop := round%2 == 1
		begin(to)
		var err error
		if drop {
			err = to.e.DropShard(0, uint64(len(to.written)))
		} else {
			err = send(from, to, 0, whole)
		}
		end(to, err)
		settle := func() {
			if to.replacements() == before {
				to.hosts[0], to.through[0] = hosted, through
				return
			}
			if to.hosts[0] = !drop; !drop {
				to.through[0] = from.appliedTo(0)
			}
		}
		settle()
		if err == nil && to.replacements() != before+1 {
			t.Fatalf("no error, and no replacement")
		}
		what := fmt.Sprintf("round %d, %v", round, err)
		to.check(what)
		if rng.IntN(2) == 0 { // else it goes on with what is in doubt
			to.crash(rng)
			settle()
			to.check(what + ", after a crash")
		}
		if to.hosts[0] {
			to.apply(0, math.MaxInt)
			to.check(what + ", applied")
		}
		from.logs[0].grow(rng)
		from.apply(0, math.MaxInt)
		if err := to.maintain(rng); err != nil {
			// A sync that failed is not believed any more: only a new start helps.
			to.crash(rng)
			settle()
			to.check(what + ", after a crash")
		}
	}
	to.crash(rng)
	to.check("at the end")
	to.end()
}

// TestScanOfAReplacedShard drops a shard in the middle of a scan: it ends with an
// error, as an answer without the rest would look complete.
func TestScanOfAReplacedShard(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 9))
	logs := newLabLogs()
	n := newLabNode(t, logs)
	defer n.end()
	for range 20 {
		logs[0].write(rng)
	}
	n.apply(0, math.MaxInt)
	request := &scan.Request{Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
	chunks := 0
	err := n.e.Scan(context.Background(), request, func(int, *scan.Chunk) error {
		if chunks++; chunks > 1 {
			return nil
		}
		return n.e.DropShard(0, uint64(len(n.written)))
	})
	if !errors.Is(err, series.ErrUnavailable) {
		t.Fatalf("%d chunks, %v", chunks, err)
	}
	n.check("after the scan")
}

// TestInstalledSeriesOutliveRetention forgets months before a cut: series that have
// samples behind it are found.
func TestInstalledSeriesOutliveRetention(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	logs := newLabLogs()
	from, to := newLabNode(t, logs), newLabNode(t, logs)
	from.hosts[0] = true
	for range 20 {
		logs[0].write(rng)
	}
	from.apply(0, math.MaxInt)
	if err := send(from, to, 0, whole); err != nil {
		t.Fatal(err)
	}
	cutMs := logs[0].nowMs - 3600_000
	logs[0].add(entry.Retention, entry.RetentionBody(cutMs), func(m *slowShard) { m.cutMs = max(m.cutMs, cutMs) })
	for _, n := range []*labNode{from, to} {
		n.apply(0, math.MaxInt)
		if err := n.e.Retain(); err != nil {
			t.Fatal(err)
		}
		if n.e.RetentionCut() != cutMs {
			t.Errorf("all shards with a replica are cut at %d, not %d", n.e.RetentionCut(), cutMs)
		}
		n.check("after the cut")
		n.crash(rng)
		n.check("after a crash")
		n.end()
	}
}

// replacements returns how often shard 0 was replaced, as the manifest says.
func (n *labNode) replacements() uint64 {
	return n.e.files.Present().LowWater[0].Number
}

// TestReplaceAfterDoubt leaves open whether a manifest that names a new replica is on
// the disk, and lets the next replacement fail: what the first one may have named is
// still there.
func TestReplaceAfterDoubt(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		from, to, _ := labPair(t, 300)
		old, through := to.replacements(), to.through[0]
		to.setRule(func(op vfs.Op) error {
			if op.Kind == vfs.OpRename && strings.HasSuffix(op.To, manifest.Name) {
				folder := path.Dir(op.To)
				to.setRule(func(op vfs.Op) error {
					if op.Kind == vfs.OpSyncDir && op.Name == folder {
						return syscall.EIO
					}
					return nil
				})
			}
			return nil
		})
		if err := send(from, to, 0, whole); !errors.Is(err, manifest.ErrInDoubt) {
			t.Fatal(err)
		}
		to.setRule(nil)
		to.check("in doubt")
		points, err := failpoint.Parse(transfer.FailReplacePublish+"=error@1", Failpoints())
		if err != nil {
			t.Fatal(err)
		}
		to.e.hit = points.Hit
		if err := send(from, to, 0, whole); !errors.Is(err, failpoint.ErrHit) {
			t.Fatal(err)
		}
		to.check("after another failure")
		names := 0
		if renamed {
			names = 100
		}
		after := to.fs.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: names})
		to.end()
		to.fs = after
		to.open()
		if to.replacements() != old {
			to.hosts[0], through = true, from.appliedTo(0)
		}
		to.through[0] = through
		to.check("after a crash")
		if problems := to.e.Stats().Corruptions; problems > 0 {
			t.Errorf("%d files are missing or damaged", problems)
		}
		from.end()
		to.end()
	}
}
