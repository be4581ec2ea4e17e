package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

var errOutOfReach = errors.New("not reachable")

func (p testPeers) Digest(ctx context.Context, name string, shard uint16, fromMs, toMs int64) (transfer.RangeDigest, error) {
	n := p.cluster.reach(p.self, name)
	if n == nil {
		return transfer.RangeDigest{}, errOutOfReach
	}
	return n.repair.DigestRange(ctx, shard, fromMs, toMs)
}

func (p testPeers) OpenRange(ctx context.Context, name string, shard uint16, fromMs, toMs int64, indexMin uint64) (io.ReadCloser, error) {
	n := p.cluster.reach(p.self, name)
	if n == nil {
		return nil, errOutOfReach
	}
	var b bytes.Buffer
	if err := n.repair.GiveRange(ctx, shard, fromMs, toMs, indexMin, &b); err != nil {
		return nil, err
	}
	return io.NopCloser(&b), nil
}

func (p testPeers) Repair(_ context.Context, name string, shard uint16, fromMs, toMs int64) error {
	n := p.cluster.reach(p.self, name)
	if n == nil {
		return errOutOfReach
	}
	return n.repair.Suspect(shard, fromMs, toMs)
}

const oldMs = int64(1_700_000_000_000) // long closed

// copyCluster is a cluster whose nodes compare copies all the time, with samples of old
// days in segments.
func copyCluster(t *testing.T, names []string, roles map[string]shardmap.Role) (c *testCluster, want map[string]float64) {
	t.Helper()
	c = newTestCluster(t)
	c.options = func(_ string, o *Options) { o.DigestInterval = 50 * time.Millisecond }
	for _, name := range names {
		c.open(name)
	}
	c.create(roles, names...)
	want = map[string]float64{}
	for i := range 240 {
		at := oldMs + int64(i)*600_000
		c.write(testKey(i%12), at, int64(i), series.BatchID{})
		want[fmt.Sprintf("%s@%d", testKey(i%12), at)] = float64(i)
	}
	for _, name := range names {
		n := c.reach("", name)
		c.await("all to be applied on "+name, func() bool { return c.caughtUp(n) })
		if err := n.CompactAll(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return c, want
}

// caughtUp reports whether a node has applied all that it knows as committed, of groups that
// have a leader.
func (c *testCluster) caughtUp(n *Node) bool {
	groups, err := n.Groups()
	for i := range groups {
		g := &groups[i]
		if g.Leader == "" || g.Role == shardmap.Full && g.EngineApplied < g.Commit {
			return false
		}
	}
	return err == nil && len(groups) > 0
}

// TestDamagedCopiesAreMended damages segments of one of two copies, whether it leads or
// not: readers get right answers or errors, the leader hands over, and what was lost is
// fetched from the other copy without anybody asking for it.
func TestDamagedCopiesAreMended(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	c, want := copyCluster(t, names, roles2())
	rng := rand.New(rand.NewPCG(1, 21))
	var repairs int64
	for round := range 4 {
		name := names[round%2]
		c.kill(name)
		damageSegments(t, c, name, rng)
		n := c.open(name)
		for shard := range uint16(testShards) { // it leads, if it can
			leader := c.reach("", names[1-round%2])
			if leader.loop.groups[shard].leads.Load() {
				_ = leader.TransferLeader(shard, name)
			}
		}
		c.mustHave(want)
		c.await(fmt.Sprintf("the damage of round %d to be found and mended", round), func() bool {
			return n.repair.Figures().Repairs > 0 && len(n.engine.Damages()) == 0 && len(n.Problems()) == 0
		})
		repairs += n.repair.Figures().Repairs
		c.mustHave(want)
		c.equalCopies("a", "b")
		c.write(testKey(round), oldMs+int64(round), 77, series.BatchID{})
		want[fmt.Sprintf("%s@%d", testKey(round), oldMs+int64(round))] = 77
		c.mustHave(want)
	}
	t.Log(repairs, "repairs")
}

// damageSegments changes bytes in most segments of a node that does not run.
func damageSegments(t *testing.T, c *testCluster, name string, rng *rand.Rand) {
	t.Helper()
	changed := 0
	for _, file := range filesBelow(t, c.disks[name], "data") {
		if path.Ext(file) == segment.FileSuffix && (changed == 0 || rng.IntN(3) > 0) {
			for range 40 { // many of them meet rollups, which nobody reads
				flip(t, c.disks[name], file, rng)
			}
			changed++
		}
	}
	if changed == 0 {
		t.Fatal("there are no segments")
	}
}

// equalCopies waits until two nodes have the same of every shard.
func (c *testCluster) equalCopies(one, other string) {
	c.t.Helper()
	for shard := range uint16(testShards) {
		c.await(fmt.Sprintf("equal copies of shard %d", shard), func() bool {
			a, err := c.reach("", one).repair.DigestRange(context.Background(), shard, scan.TimeMsMin, scan.TimeMsMax)
			if err != nil {
				return false
			}
			b, err := c.reach("", other).repair.DigestRange(context.Background(), shard, scan.TimeMsMin, scan.TimeMsMax)
			return err == nil && a.Digest == b.Digest && a.Applied == b.Applied
		})
	}
}

// forge changes a sample in one copy alone, as a bug would.
func forge(t *testing.T, n *Node, key series.Key, timeMs, value int64) {
	t.Helper()
	shard := key.Shard(testShards)
	var e series.BatchEncoder
	e.Append(e.Define(key), timeMs, value, 0)
	batch := e.AppendTo(nil)
	body := append(entry.AppendBatchHeader(entry.AppendTime(nil, timeMs), series.BatchID{}, len(batch)), batch...)
	entry := entry.Entry{Kind: entry.Samples, Shard: shard, Term: 1, Index: n.Applied(shard), Body: body}
	if err := n.engine.Apply(0, &entry); err != nil {
		t.Fatal(err)
	}
	if err := n.CompactAll(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestOneCopyOfThreeDiffers: the two that agree are right, whoever leads.
func TestOneCopyOfThreeDiffers(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "d"}
	c, want := copyCluster(t, names, roles2())
	for i, name := range names {
		forge(t, c.reach("", name), testKey(1), oldMs+600_000, int64(1000+i)) // each round another one
		forge(t, c.reach("", name), testKey(2), oldMs+7, int64(1000+i))       // a sample that nobody else has
		c.await("the copy of "+name+" to be mended", func() bool { return c.reach("", name).repair.Figures().Repairs > 0 })
		for _, other := range names {
			c.equalCopies(names[0], other)
		}
		c.mustHave(want)
	}
}

// TestTwoCopiesDiffer: with two copies whose checksums hold it is unknown which one is
// right. Nothing is changed, and a person is told.
func TestTwoCopiesDiffer(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	c, _ := copyCluster(t, names, roles2())
	key := testKey(1)
	forge(t, c.reach("", "a"), key, oldMs+600_000, 1000)
	told := func() (text string) {
		for _, name := range []string{"a", "b"} {
			text += strings.Join(c.reach("", name).Problems(), "\n")
		}
		return text
	}
	c.await("the difference to be told", func() bool {
		return strings.Contains(told(), fmt.Sprintf("the copies of shard %d from", key.Shard(testShards)))
	})
	passes := c.reach("", "a").repair.Figures().Passes + c.reach("", "b").repair.Figures().Passes
	c.await("further passes", func() bool {
		return c.reach("", "a").repair.Figures().Passes+c.reach("", "b").repair.Figures().Passes > passes+4
	})
	for _, name := range []string{"a", "b"} {
		if n := c.reach("", name); n.repair.Figures().Repairs > 0 {
			t.Errorf("node %s has replaced something", name)
		}
	}
	// It is forgotten when the copies are equal again.
	forge(t, c.reach("", "b"), key, oldMs+600_000, 1000)
	c.await("the difference to be forgotten", func() bool { return told() == "" })
}

// TestClocksOfMembers: a node whose clock is a year ahead cuts nothing, and the others cut
// what is too old by theirs.
func TestClocksOfMembers(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	c := newTestCluster(t)
	var wrong atomic.Int64
	wrong.Store(int64(365 * 24 * time.Hour))
	clock := func(name string) func() time.Time {
		if name != "a" {
			return time.Now
		}
		return func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }
	}
	c.clock = clock
	c.options = func(name string, o *Options) {
		o.Clock, o.Retention, o.FlushInterval = clock(name), 30*24*time.Hour, 20*time.Millisecond
	}
	for _, name := range names {
		c.open(name)
	}
	c.create(roles2(), names...)
	nowMs := time.Now().UnixMilli()
	want := map[string]float64{}
	put := func(i int, at int64) {
		c.write(testKey(i), at, int64(i), series.BatchID{})
		if at > nowMs-29*24*3600_000 {
			want[fmt.Sprintf("%s@%d", testKey(i), at)] = float64(i)
		}
	}
	for i := range 24 {
		put(i, nowMs-int64(i)*1000)
	}
	a := c.reach("", "a")
	c.await("a and b to lead a shard each", func() bool {
		leads := 0
		for shard, name := range []string{"a", "b"} {
			for _, other := range names {
				if n := c.reach("", other); other != name && n.loop.groups[shard].leads.Load() {
					_ = n.TransferLeader(uint16(shard), name)
				}
			}
			leads += countIf(c.reach("", name).loop.groups[shard].leads.Load())
		}
		return leads == 2
	})
	for i := range 24 {
		put(i, nowMs-40*24*3600_000)
	}
	c.await("a to hold its retention", a.clocks.Held)
	// What the others lead is cut by their clocks.
	c.await("the others to cut", func() bool {
		for shard := range uint16(testShards) {
			if n := c.reach("", "b"); n.loop.groups[shard].leads.Load() && n.engine.ShardStats(shard).CutMs > 0 {
				return true
			}
		}
		return false
	})
	for shard := range uint16(testShards) {
		for _, name := range []string{"a", "b"} {
			if cut := c.reach("", name).engine.ShardStats(shard).CutMs; cut > nowMs-29*24*3600_000 {
				t.Errorf("shard %d on %s is cut at %s", shard, name, time.UnixMilli(cut))
			}
		}
	}
	got := c.read()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %v, want %v", key, got[key], value)
		}
	}
	for _, name := range names {
		if text := strings.Join(c.reach("", name).Problems(), "\n"); !strings.Contains(text, "clocks differ") {
			t.Errorf("node %s says %q", name, text)
		}
	}
	wrong.Store(0)
	c.await("a to cut once its clock is right", func() bool {
		put(0, nowMs) // nodes that say nothing do not tell their clocks here
		for shard := range uint16(testShards) {
			if a.loop.groups[shard].leads.Load() && a.engine.ShardStats(shard).CutMs > 0 {
				return !a.clocks.Held()
			}
		}
		return a.groupFigures().leading == 0 && !a.clocks.Held()
	})
}
