package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// testCluster is nodes in one process, whose envelopes and files travel by function
// calls. The test is its placement store.
type testCluster struct {
	t *testing.T
	// adopting is held, before mu, while nodes are given a map: none gets an older one
	// after a newer one.
	adopting sync.Mutex

	mu struct {
		sync.Mutex
		nodes map[string]*Node
		cut   map[[2]string]bool // from, to
		tells map[string]bool    // nodes that tell what they know of entries that forget series: those of an earlier version do not
		m     *shardmap.Map
	}
	disks       map[string]*vfs.MemFS
	failpoints  map[string]*failpoint.Set
	lives       map[string]*atomic.Bool // of the process that runs; false: nothing of it is heard any more
	mode        SyncMode
	boot        string // of all machines
	logBytesMax int64
	options     func(node string, o *Options)      // nil: none are changed
	clock       func(node string) func() time.Time // nil: nodes do not tell their clocks
	stop        chan struct{}
	ended       sync.WaitGroup
}

// testPeers is what one node sees of the others.
type testPeers struct {
	cluster *testCluster
	self    string
	alive   *atomic.Bool
}

func (p testPeers) Send(to string, envelope []byte) {
	if n := p.cluster.reach(p.self, to); n != nil && p.alive.Load() {
		n.Receive(p.self, bytes.Clone(envelope))
		if p.cluster.clock != nil {
			n.HeardClock(p.self, p.cluster.clock(p.self)().UnixMilli())
		}
		if self := p.cluster.reach("", p.self); self != nil && p.cluster.tells(p.self) {
			n.HeardEntries(p.self, self.Entries())
		}
	}
}

func (p testPeers) QueueBytes() int64 { return 0 }

func (p testPeers) Fetch(_ context.Context, from string, shard uint16) (io.ReadCloser, error) {
	n := p.cluster.reach(p.self, from)
	if n == nil {
		return nil, errors.New("not reachable")
	}
	files, err := n.transfer.Open(shard)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{files.OpenAt(0), files}, nil
}

func (p testPeers) Group(_ context.Context, name string, shard uint16) (commit.GroupView, error) {
	n := p.cluster.reach(p.self, name)
	if n == nil {
		return commit.GroupView{}, errors.New("not reachable")
	}
	return n.GroupView(shard)
}

func (c *testCluster) reach(from, to string) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.cut[[2]string{from, to}] {
		return nil
	}
	return c.mu.nodes[to]
}

func (c *testCluster) tells(node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.tells[node]
}

// upgrade makes nodes tell what they know of entries that forget series.
func (c *testCluster) upgrade(nodes ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, node := range nodes {
		c.mu.tells[node] = true
	}
}

func newTestCluster(t *testing.T) *testCluster {
	c := &testCluster{t: t, disks: map[string]*vfs.MemFS{}, lives: map[string]*atomic.Bool{}, mode: SyncInterval, stop: make(chan struct{})}
	c.mu.nodes, c.mu.cut, c.mu.tells = map[string]*Node{}, map[[2]string]bool{}, map[string]bool{}
	c.ended.Go(c.publish)
	t.Cleanup(func() {
		close(c.stop)
		c.ended.Wait()
		for _, name := range c.names() {
			c.close(name)
		}
	})
	return c
}

func (c *testCluster) names() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.mu.nodes {
		names = append(names, name)
	}
	return names
}

// open starts a node on its disk.
func (c *testCluster) open(name string) *Node {
	c.t.Helper()
	c.mu.Lock()
	m := c.mu.m
	c.mu.Unlock()
	n := c.openWith(name, m)
	c.adopting.Lock()
	defer c.adopting.Unlock()
	c.mu.Lock()
	newer := c.mu.m // than m, if there was another one before the node could hear of it
	c.mu.Unlock()
	if newer != m {
		_ = n.AdoptMap(newer)
	}
	return n
}

// openWith starts a node that has kept a map, which may be old; nil: none.
func (c *testCluster) openWith(name string, m *shardmap.Map) *Node {
	c.t.Helper()
	if c.disks[name] == nil {
		c.disks[name] = vfs.NewMemFS()
	}
	o := testOptions(c.disks[name], c.mode)
	o.NodeID, o.BootID, o.LogBytesMax, o.Failpoints = name, c.boot, c.logBytesMax, c.failpoints[name]
	peers := testPeers{c, name, &atomic.Bool{}}
	peers.alive.Store(true)
	c.lives[name] = peers.alive
	o.Peers, o.Files, o.GroupClient, o.Copies = peers, peers, peers, peers
	if c.options != nil {
		c.options(name, &o)
	}
	n := mustOpen(c.t, o)
	c.adopting.Lock()
	defer c.adopting.Unlock()
	c.mu.Lock()
	c.mu.nodes[name] = n
	c.mu.Unlock()
	if m != nil {
		if err := n.AdoptMap(m); err != nil {
			c.t.Fatal(err)
		}
	}
	return n
}

// close stops a node.
func (c *testCluster) close(name string) {
	c.mu.Lock()
	n := c.mu.nodes[name]
	delete(c.mu.nodes, name)
	c.mu.Unlock()
	if err := n.Close(); err != nil {
		c.t.Error(err)
	}
}

// kill ends a node as a killed process would: what it wrote is there.
func (c *testCluster) kill(name string) {
	c.crash(name, vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
}

// crash ends a node and leaves what options say of its disk. What it says after the
// picture of the disk was taken is not heard.
func (c *testCluster) crash(name string, options vfs.CrashOptions) {
	c.mu.Lock()
	n := c.mu.nodes[name]
	delete(c.mu.nodes, name)
	c.mu.Unlock()
	c.lives[name].Store(false)
	after := c.disks[name].CrashClone(options)
	c.disks[name].SetCapacity(1 << 40)
	_ = n.Close()
	c.disks[name] = after
}

// place publishes a map.
func (c *testCluster) place(change func(m shardmap.Map) shardmap.Map) {
	c.adopting.Lock()
	defer c.adopting.Unlock()
	c.mu.Lock()
	var next shardmap.Map
	if c.mu.m != nil {
		next = c.mu.m.Clone()
	}
	next = change(next)
	c.mu.m = &next
	nodes := make([]*Node, 0, len(c.mu.nodes))
	for _, n := range c.mu.nodes {
		nodes = append(nodes, n)
	}
	c.mu.Unlock()
	for _, n := range nodes {
		_ = n.AdoptMap(&next)
	}
}

// publish writes what leaders have reached into the map, as the agents do.
func (c *testCluster) publish() {
	for {
		select {
		case <-c.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		for _, name := range c.names() {
			n := c.reach("", name)
			if n == nil {
				continue
			}
			epoch := c.epoch()
			for _, s := range n.Unpublished(context.Background()) {
				c.place(func(m shardmap.Map) shardmap.Map {
					if m.Epoch != epoch {
						return m // it is not the map that the configuration was confirmed for
					}
					if row, changed := m.Rows[s.Shard].Published(s.Config); changed {
						m = m.WithRow(s.Shard, row)
						epoch = m.Epoch
					}
					return m
				})
			}
		}
	}
}

func (c *testCluster) epoch() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.m == nil {
		return 0
	}
	return c.mu.m.Epoch
}

// create makes the first map, with the same members for every shard.
func (c *testCluster) create(roles map[string]shardmap.Role, names ...string) {
	c.place(func(shardmap.Map) shardmap.Map {
		var members []shardmap.Member
		for i, name := range names {
			members = append(members, shardmap.Member{
				Node: name, Incarnation: c.mu.nodes[name].Incarnation(), RaftID: uint64(i + 1), Role: roles[name],
			})
		}
		m := shardmap.Map{Format: 1, Cluster: "c", ID: c.mu.nodes[names[0]].Incarnation(), Epoch: 1,
			Settings: shardmap.Settings{Shards: testShards, Replication: 2}}
		for range testShards {
			m.Rows = append(m.Rows, shardmap.Row{Version: 1, RaftIDLast: uint64(len(names)), Era: 1, Fresh: true, Members: members})
		}
		return m
	})
}

// awaitMax bounds a wait for what comes within a second on a machine that is not busy.
const awaitMax = 5 * time.Minute

// await waits for a condition.
func (c *testCluster) await(what string, condition func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(awaitMax); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.report()
			c.t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (c *testCluster) report() {
	for _, name := range c.names() {
		groups, err := c.reach("", name).Groups()
		c.t.Logf("node %s: %v", name, err)
		for i := range groups {
			g := &groups[i]
			c.t.Logf("  shard %d raft %d %v leads=%v leader=%q term=%d last=%d commit=%d applied=%d trunc=%d quiet=%v fault=%v members=%v",
				g.Shard, g.RaftID, g.Role, g.Leads, g.Leader, g.Term, g.Last, g.Commit, g.EngineApplied, g.Truncated.Index, g.Hibernating, g.Fault, g.Configuration.Members)
		}
	}
}

// write writes one sample through whoever leads, as often as it takes.
func (c *testCluster) write(key series.Key, timeMs int64, value int64, id series.BatchID) {
	c.t.Helper()
	var e series.BatchEncoder
	e.Append(e.Define(key), timeMs, value, 0)
	c.writeFrame(&series.Frame{Parts: []series.Part{{Shard: key.Shard(testShards), Batch: e.AppendTo(nil)}}, Points: 1, ID: id})
}

// writeFrame writes samples of one shard through whoever leads it, as often as it takes.
func (c *testCluster) writeFrame(frame *series.Frame) {
	c.t.Helper()
	c.await(fmt.Sprintf("a write to shard %d", frame.Parts[0].Shard), func() bool {
		for _, name := range c.names() {
			n := c.reach("", name)
			if n == nil {
				continue
			}
			outcome, err := n.Write(context.Background(), frame)
			if err == nil {
				if outcome.Copies < 1 {
					c.t.Errorf("%d copies", outcome.Copies)
				}
				return true
			}
			if !errors.Is(err, series.ErrUnavailable) && !errors.Is(err, series.ErrOverloaded) && !errors.Is(err, series.ErrReadOnly) {
				c.t.Fatal(err)
			}
		}
		return false
	})
}

// read returns all samples, each shard's from its leader.
func (c *testCluster) read() map[string]float64 {
	c.t.Helper()
	samples := map[string]float64{}
	for shard := range uint16(testShards) {
		c.await(fmt.Sprintf("a read of shard %d", shard), func() bool {
			for _, name := range c.names() {
				n := c.reach("", name)
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				err := n.Confirm(ctx, []uint16{shard}, 0)[0]
				cancel()
				if err != nil {
					continue
				}
				request := scan.Request{Selector: scan.Selector{MetricAny: true, Shards: []uint16{shard}}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
				err = n.Scan(context.Background(), &request, func(_ int, chunk *scan.Chunk) error {
					for i, at := range chunk.Times {
						samples[fmt.Sprintf("%s@%d", chunk.Key, at)] = chunk.Values[i]
					}
					return nil
				})
				if err == nil {
					return true
				}
			}
			return false
		})
	}
	return samples
}

func (c *testCluster) mustHave(want map[string]float64) {
	c.t.Helper()
	got := c.read()
	for key, value := range want {
		if v, ok := got[key]; !ok || v != value {
			c.t.Errorf("%s is %v (%v), want %v", key, v, ok, value)
		}
	}
	if len(got) != len(want) {
		c.t.Errorf("%d samples, want %d", len(got), len(want))
	}
}

func roles2() map[string]shardmap.Role {
	return map[string]shardmap.Role{"a": shardmap.Full, "b": shardmap.Full, "c": shardmap.Witness, "d": shardmap.Full, "e": shardmap.Full}
}

// TestFailover kills each node of a cluster with two copies and a witness in turn.
func TestFailover(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	want := map[string]float64{}
	at := int64(1_700_000_000_000)
	writes := func() {
		for i := range 40 {
			at++
			c.write(testKey(i%12), at, at%1000, series.BatchID{Session: 7, Counter: uint64(at - 1_700_000_000_000)})
			want[fmt.Sprintf("%s@%d", testKey(i%12), at)] = float64(at % 1000)
		}
	}
	writes()
	c.mustHave(want)
	for _, name := range []string{"a", "b", "c", "a"} {
		c.kill(name)
		writes()
		c.mustHave(want)
		c.open(name)
		writes()
		c.mustHave(want)
	}
}

// TestMoveOfShards moves every shard from one node to another while it is written.
func TestMoveOfShards(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	want := map[string]float64{}
	at := int64(1_700_000_000_000)
	writes := func(n int) {
		for i := range n {
			at++
			c.write(testKey(i%12), at, at%1000, series.BatchID{})
			want[fmt.Sprintf("%s@%d", testKey(i%12), at)] = float64(at % 1000)
		}
	}
	writes(60)
	if err := c.reach("", "a").checkpoint(); err != nil {
		t.Fatal(err)
	}
	c.place(func(m shardmap.Map) shardmap.Map {
		for shard, row := range m.Rows {
			intended := []shardmap.Member{}
			for _, member := range row.Members {
				if member.Node == "a" {
					member = shardmap.Member{Node: "d", Incarnation: c.mu.nodes["d"].Incarnation(), Role: shardmap.Full}
				}
				intended = append(intended, member)
			}
			m = m.WithRow(uint16(shard), row.WithIntended(intended))
		}
		return m
	})
	moved := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, row := range c.mu.m.Rows {
			if row.Intended != nil {
				return false
			}
		}
		return true
	}
	c.await("the end of the moves", func() bool { writes(5); return moved() })
	c.mustHave(want)
	c.await("a to be empty", func() bool {
		groups, err := c.reach("", "a").Groups()
		return err == nil && len(groups) == 0
	})
	c.kill("a")
	writes(10)
	c.kill("b")
	c.mustHave(want)
}
