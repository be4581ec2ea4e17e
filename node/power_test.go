package node

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// quarantined returns the number of replicas of a node that take no part.
func (c *testCluster) quarantined(name string) (count int) {
	c.t.Helper()
	n := c.reach("", name)
	if err := n.loop.queue.do(func() { count = n.loop.machine.Quarantined() }); err != nil {
		c.t.Fatal(err)
	}
	return count
}

// writeSome writes n samples from a time on, and notes them in want.
func (c *testCluster) writeSome(want map[string]float64, at *int64, n int) {
	c.t.Helper()
	for i := range n {
		*at++
		c.write(testKey(i%12), *at, *at%1000, series.BatchID{})
		want[fmt.Sprintf("%s@%d", testKey(i%12), *at)] = float64(*at % 1000)
	}
}

// loseAll is a power cut that takes all that was not synced.
func loseAll(seed uint64) vfs.CrashOptions { return vfs.CrashOptions{Seed: seed} }

// TestPowerCutOfOneBoard takes the unsynced log of a follower or leader away, on another
// start of the machine: it does not go on under its old raft ids, keeps what it has until
// its groups are known to go on, and is replaced by itself.
func TestPowerCutOfOneBoard(t *testing.T) {
	t.Parallel()
	c := newBoards(t, "a", "b", "c")
	c.create(roles2(), "a", "b", "c")
	want, at := map[string]float64{}, int64(1_700_000_000_000)
	c.writeSome(want, &at, 40)
	old := c.reach("", "b").Incarnation()
	c.crash("b", loseAll(1))
	c.writeSome(want, &at, 20)
	c.boot = "second"
	b := c.openRenewed("b", old)
	c.writeSome(want, &at, 20)
	c.replace("b", old)
	c.await("the end of the moves", c.planned)
	c.mustHave(want)
	if n := c.quarantined("b"); n > 0 {
		t.Errorf("%d quarantined replicas are left", n)
	}
	c.await("b to have a replica of each shard", func() bool {
		groups, err := b.Groups()
		return err == nil && len(groups) == testShards
	})
	c.kill("a") // what it alone had is on b by now
	c.writeSome(want, &at, 20)
	c.mustHave(want)
}

// replace lets a node's new incarnation take the places of an old one, as the planner does.
func (c *testCluster) replace(name, old string) {
	incarnation := c.reach("", name).Incarnation()
	c.place(func(m shardmap.Map) shardmap.Map {
		for shard, row := range m.Rows {
			intended := slices.Clone(row.Members)
			for i := range intended {
				if intended[i].Incarnation == old {
					intended[i] = shardmap.Member{Node: name, Incarnation: incarnation, Role: intended[i].Role}
				}
			}
			m = m.WithRow(uint16(shard), row.WithIntended(intended))
		}
		return m
	})
}

// planned reports whether the map wants nothing more.
func (c *testCluster) planned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.mu.m.Rows, func(row shardmap.Row) bool { return row.Intended != nil })
}

// newBoards returns a cluster with these nodes open, in their first boot.
func newBoards(t *testing.T, names ...string) *testCluster {
	t.Helper()
	c := newTestCluster(t)
	c.boot = "first"
	for _, name := range names {
		c.open(name)
	}
	return c
}

// sync makes durable what the logs of nodes have.
func (c *testCluster) sync(names ...string) {
	c.t.Helper()
	for _, name := range names {
		if _, err := c.reach("", name).log.Sync(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// openRenewed opens a node that may have lost what it acknowledged: it is not the incarnation that it was,
// and takes part in no group.
func (c *testCluster) openRenewed(name, old string) *Node {
	c.t.Helper()
	n := c.open(name)
	if n.Incarnation() == old {
		c.t.Fatal("the data folder is the incarnation that may have lost what it had acknowledged")
	}
	if groups, err := n.Groups(); err != nil || len(groups) > 0 {
		c.t.Fatalf("%d groups, %v: it takes part under its old raft ids", len(groups), err)
	}
	return n
}

// TestPowerCutOfAllBoards takes the unsynced logs of all away: no group goes on by
// itself, nothing is dropped, however often they start, and groups go on from the best of
// what the boards have, once all that may have data are there.
func TestPowerCutOfAllBoards(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	c := newBoards(t, names...)
	c.create(roles2(), names...)
	synced, at := map[string]float64{}, int64(1_700_000_000_000)
	c.writeSome(synced, &at, 40)
	c.sync(names...)
	for i, name := range names {
		c.crash(name, loseAll(uint64(i)))
	}
	c.boot = "second"
	for round := range 2 {
		for _, name := range names {
			c.open(name)
			if n := c.quarantined(name); n != testShards {
				t.Fatalf("round %d: node %s has %d quarantined replicas", round, name, n)
			}
			if err := c.reach("", name).checkpoint(); err != nil { // what quarantined replicas have not applied is still needed
				t.Fatal(err)
			}
		}
		if round == 0 {
			c.kill("b")
			if rs := c.recoveries(); len(rs) != testShards || rs[0].Automatic() || len(rs[0].Missing) != 1 || rs[0].Missing[0].Node != "b" {
				t.Fatalf("without b: %+v", rs)
			}
			c.close("a")
			c.close("c")
		}
	}
	c.recover()
	c.mustHave(synced)
	c.writeSome(synced, &at, 20)
	for _, name := range names {
		if err := c.reach("", name).checkpoint(); err != nil { // of the time of quarantine
			t.Fatal(err)
		}
		c.kill(name)
		c.open(name)
	}
	c.mustHave(synced)
	c.await("quarantined replicas elsewhere to go", func() bool { return c.quarantined("a")+c.quarantined("b")+c.quarantined("c") == 0 })
	c.place(func(m shardmap.Map) shardmap.Map {
		for shard, row := range m.Rows {
			other := map[string]string{"a": "b", "b": "a"}[row.Members[0].Node]
			more := shardmap.Member{Node: other, Incarnation: c.mu.nodes[other].Incarnation(), Role: shardmap.Full}
			m = m.WithRow(uint16(shard), row.WithIntended(append(slices.Clone(row.Members), more)))
		}
		return m
	})
	c.await("a second copy", c.planned)
	c.mustHave(synced)
}

// recoveries returns the shards that need one, by what all nodes say.
func (c *testCluster) recoveries() []shardmap.Recovery {
	c.t.Helper()
	var copies []shardmap.NodeCopies
	for _, name := range c.names() {
		said, err := c.reach("", name).Copies()
		if err != nil {
			c.t.Fatal(err)
		}
		copies = append(copies, said)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found := shardmap.Recoveries(c.mu.m, copies)
	return slices.DeleteFunc(found, func(r shardmap.Recovery) bool { return r.Electable })
}

// recover lets all groups go on, which may do so without a person's word. A leader that
// has lost its majority needs a while to notice.
func (c *testCluster) recover() {
	c.t.Helper()
	var rs []shardmap.Recovery
	c.await("all groups to be without a leader", func() bool {
		rs = c.recoveries()
		return len(rs) == testShards
	})
	c.place(func(m shardmap.Map) shardmap.Map {
		for i := range rs {
			if !rs[i].Automatic() {
				c.t.Fatalf("%+v is not automatic", rs[i])
			}
			next, err := m.Recover(&rs[i], 1, false)
			if err != nil {
				c.t.Fatal(err)
			}
			m = next
		}
		return m
	})
}

// TestPowerCutOfTwoBoards leaves one full voter with its vote, which is no majority. All
// who have data are there, so groups go on from the better log of the two, be it of the
// one whose vote lives or of the quarantined replica; a second power cut follows at once.
func TestPowerCutOfTwoBoards(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	c := newBoards(t, names...)
	c.create(roles2(), names...)
	want, at := map[string]float64{}, int64(1_700_000_000_000)
	c.writeSome(want, &at, 40)
	c.sync(names...)
	c.crash("a", loseAll(1))
	c.crash("c", loseAll(2))
	c.boot = "second"
	c.open("a")
	c.open("c")
	c.recover()
	c.mustHave(want)
	c.writeSome(want, &at, 20)
	// Also b has replicas that others go on without: as long as it does, a power cut makes
	// it another incarnation, and its groups with a single voter need to be told.
	c.await("all but groups with a single voter to go", func() bool {
		replicas := c.quarantined("a") + c.quarantined("c")
		for _, name := range names {
			groups, err := c.reach("", name).Groups()
			if err != nil {
				t.Fatal(err)
			}
			replicas += len(groups)
		}
		return replicas == testShards
	})
	c.sync(names...)
	for i, name := range names {
		c.crash(name, loseAll(uint64(i)))
	}
	c.boot = "third"
	for _, name := range names {
		c.open(name)
	}
	c.mustHave(want)
	if rs := c.recoveries(); len(rs) > 0 {
		t.Errorf("groups with a single voter need nobody: %+v", rs)
	}
}

// TestQuarantineOutlivesAnOldMap starts a board after a power cut with the map that it had kept,
// from before it was published that its replicas are members, and they are all that has some
// of what was answered.
func TestQuarantineOutlivesAnOldMap(t *testing.T) {
	t.Parallel()
	c := newBoards(t, "a", "b", "c", "d")
	c.create(roles2(), "a", "b", "c")
	want, at := map[string]float64{}, int64(1_700_000_000_000)
	c.writeSome(want, &at, 20)
	var before, kept shardmap.Map
	look := func(into *shardmap.Map) {
		c.place(func(m shardmap.Map) shardmap.Map {
			*into = m.Clone()
			return m
		})
	}
	look(&before)
	c.aim("b", "c", "d")
	c.await("the end of the moves", c.planned)
	look(&kept)
	for shard := range kept.Rows { // as it was while they moved
		row := &kept.Rows[shard]
		row.Members, row.Intended = before.Rows[shard].Members, row.Members
	}
	c.close("b") // c and d go on
	c.writeSome(want, &at, 20)
	for _, name := range []string{"c", "d"} {
		c.sync(name)
		c.crash(name, loseAll(1))
	}
	c.boot = "second"
	c.openWith("d", &kept)
	if n := c.quarantined("d"); n != testShards {
		t.Fatalf("%d of %d quarantined replicas are left", n, testShards)
	}
	c.open("b")
	c.open("c")
	c.place(func(m shardmap.Map) shardmap.Map { return m }) // d hears of it
	c.recover()
	c.mustHave(want)
}

// TestBeginEmptyWhereAWitnessIs loses both boards with data. The groups begin anew on the
// only one that is left, on a person's word, be its witnesses alive or quarantined.
func TestBeginEmptyWhereAWitnessIs(t *testing.T) {
	t.Parallel()
	for _, lostPower := range []bool{false, true} {
		c := newBoards(t, "a", "b", "c")
		c.create(roles2(), "a", "b", "c")
		gone, at := map[string]float64{}, int64(1_700_000_000_000)
		c.writeSome(gone, &at, 20)
		c.close("a")
		c.close("b")
		if lostPower {
			c.sync("c")
			c.crash("c", loseAll(1))
			c.boot = "second"
			c.open("c")
		}
		var rs []shardmap.Recovery
		c.await("all groups to be without a leader", func() bool {
			rs = c.recoveries()
			return len(rs) == testShards
		})
		c.place(func(m shardmap.Map) shardmap.Map {
			for i := range rs {
				next, err := m.Recover(&rs[i], 1, true)
				if err != nil {
					t.Fatal(err)
				}
				m = next
			}
			return m
		})
		want := map[string]float64{}
		c.writeSome(want, &at, 20)
		c.mustHave(want)
	}
}

// TestPowerCutBeforeTheFirstEntry lets groups go on of which no log has an entry.
func TestPowerCutBeforeTheFirstEntry(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	c := newBoards(t, names...)
	c.create(roles2(), names...)
	for i, name := range names {
		c.crash(name, loseAll(uint64(i)))
	}
	c.boot = "second"
	for _, name := range names {
		c.open(name)
	}
	c.recover()
	want, at := map[string]float64{}, int64(1_700_000_000_000)
	c.writeSome(want, &at, 20)
	c.mustHave(want)
}

// TestPowerCutOfSingleVoterGroups goes on with what there is: there is nobody to ask.
func TestPowerCutOfSingleVoterGroups(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.boot = "first"
	n := c.open("a")
	c.create(roles2(), "a")
	want, at := map[string]float64{}, int64(1_700_000_000_000)
	c.writeSome(want, &at, 40)
	if _, err := n.log.Sync(); err != nil {
		t.Fatal(err)
	}
	old, era := n.Incarnation(), n.Era(0)
	c.crash("a", loseAll(1))
	c.boot = "second"
	n = c.open("a")
	if n.Incarnation() != old {
		t.Error("the data folder has become another incarnation")
	}
	// The lost end may have defined series whose ids are given again.
	if n.Era(0) <= era {
		t.Errorf("the ids of shard 0 are still of era %d", n.Era(0))
	}
	c.mustHave(want)
}

// TestCleanEndsLoseNothing goes on as the same incarnation: after a clean end on another
// start of the machine, and after a kill on the same one.
func TestCleanEndsLoseNothing(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.boot = "first"
	names := []string{"a", "b", "c"}
	incarnations := map[string]string{}
	for _, name := range names {
		incarnations[name] = c.open(name).Incarnation()
	}
	c.create(roles2(), names...)
	want, at := map[string]float64{}, int64(1_700_000_000_000)
	c.writeSome(want, &at, 20)
	for _, name := range names {
		c.close(name)
	}
	c.boot = "second"
	for _, name := range names {
		c.open(name)
	}
	c.writeSome(want, &at, 20)
	c.kill("a")
	if n := c.open("a"); n.Incarnation() != incarnations["a"] || c.quarantined("a") > 0 {
		t.Error("a killed process is taken for a power cut")
	}
	for _, name := range names {
		if c.reach("", name).Incarnation() != incarnations[name] {
			t.Errorf("node %s is another incarnation", name)
		}
	}
	c.mustHave(want)
}

// TestSingleVoterGroupsGainMembers lets groups that were always alone, and had no checkpoint
// yet, gain members and lose them again.
func TestSingleVoterGroupsGainMembers(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.open("a")
	c.create(roles2(), "a")
	want, at := map[string]float64{}, int64(1_700_000_000_000)
	c.writeSome(want, &at, 40)
	for round := range 2 {
		c.open("b")
		c.open("c")
		c.aim("a", "b", "c")
		c.await("members", func() bool { c.writeSome(want, &at, 3); return c.planned() })
		c.kill("a")
		c.writeSome(want, &at, 20)
		c.open("a")
		c.mustHave(want)
		c.aim("a")
		c.await("fewer members", func() bool { c.writeSome(want, &at, 3); return c.planned() })
		c.mustHave(want)
		for _, name := range []string{"b", "c"} {
			c.await("data to be dropped", func() bool {
				groups, err := c.reach("", name).Groups()
				return err == nil && len(groups) == 0
			})
			if round == 0 {
				c.close(name)
			}
		}
		c.writeSome(want, &at, 20)
	}
	c.kill("a")
	c.open("a")
	c.mustHave(want)
}

// aim lets every shard have members on these nodes.
func (c *testCluster) aim(names ...string) {
	c.place(func(m shardmap.Map) shardmap.Map {
		for shard, row := range m.Rows {
			var intended []shardmap.Member
			for _, name := range names {
				member := shardmap.Member{Node: name, Incarnation: c.mu.nodes[name].Incarnation(), Role: roles2()[name]}
				if present, ok := row.MemberOn(name, member.Incarnation); ok {
					member = present
				}
				intended = append(intended, member)
			}
			m = m.WithRow(uint16(shard), row.WithIntended(intended))
		}
		return m
	})
}

// TestFailedSyncIsRemembered fails a sync of a node's log, drops what was not synced, as a file
// system may, and starts the node again on the same run of the machine: it may have acknowledged
// what its log lacks now, and does not vote with it.
func TestFailedSyncIsRemembered(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.mode, c.boot = SyncInterval, "first"
	var failing atomic.Bool
	c.options = func(name string, o *Options) {
		if name == "b" {
			o.SyncInterval = time.Millisecond
			o.FS = vfs.Faults(o.FS, func(op vfs.Op) error {
				if failing.Load() && op.Kind == vfs.OpSync && path.Base(path.Dir(op.Name)) == dirLog {
					return syscall.EIO
				}
				return nil
			})
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	want, at := map[string]float64{}, int64(1_700_000_000_000)
	c.writeSome(want, &at, 40)
	b := c.reach("", "b")
	old := b.Incarnation()
	failing.Store(true)
	c.writeSome(want, &at, 12) // there is something to sync
	c.await("the failure to be noted", func() bool {
		r, err := readRun(c.disks["b"], b.options.DataDir)
		return err == nil && r.broken
	})
	if b.Health() == nil {
		t.Error("it takes writes")
	}
	c.crash("b", loseAll(1))
	failing.Store(false)
	b = c.openRenewed("b", old)
	c.writeSome(want, &at, 20)
	c.replace("b", old)
	c.await("the end of the moves", c.planned)
	c.mustHave(want)
	again := b.Incarnation()
	c.kill("b")
	if b = c.open("b"); b.Incarnation() != again {
		t.Error("it is remembered for ever")
	}
}

// FuzzRunRecord reads what is written, and nothing else.
func FuzzRunRecord(f *testing.F) {
	for _, r := range []runRecord{{}, {clean: true, mode: SyncAlways, boot: "b", former: []string{"one", "two"}}, {mode: SyncOff}, {broken: true, mode: SyncInterval, boot: "b"}, {mode: SyncInterval, boot: "an id \"with\" signs\n"}} {
		f.Add(string(r.encode()))
		f.Add(fmt.Sprintf(runFormat1, r.clean, r.mode, r.boot))
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRunRecord([]byte(text))
		first := fmt.Sprintf(runFormat1, r.clean, r.mode, r.boot)
		if err == nil && string(r.encode()) != text && first != text {
			t.Errorf("%q is read as %+v", text, r)
		}
		again, err := parseRunRecord((&runRecord{clean: len(text)%2 == 0, mode: SyncMode(text), boot: text, former: []string{"one", "two"}}).encode())
		if !strings.ContainsAny(text, "\n") && (err != nil || again.boot != text || string(again.mode) != text || len(again.former) != 2) {
			t.Errorf("%q is read as %+v, %v", text, again, err)
		}
	})
}
