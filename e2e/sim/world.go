package sim

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
)

// Options say what is simulated.
type Options struct {
	Seed        uint64
	Nodes       int
	Shards      int
	Replication int
	Always      bool // the log is synced before each answer; else once a second
	StatesLater bool // states without entries are synced while the loop goes on, as is done anyway if not Always
	Rescue      bool // groups that have lost their majority for good go on from the best log
	Routers     int
	Clients     int // of each router
	ActiveMs    int // with faults; then all is healed and must come to rest
	Faults      FaultSet
	Hurry       int  // faults come so many times as often; 0: once
	StallMs     int  // appliers fall behind for so long at most; 0: stallMax
	SetBackMs   int  // the store is set back by so much at most; 0: setBackMax
	Forget      bool // series that deletes have emptied are forgotten
	SyncMs      int  // what each sync of the log takes beyond the usual
	Timed       bool // clients only write, routers try again as the product's do, and it is noted how long writes took
	Variant     Variant
	Trace       int // so many last events are kept as text
}

func (o *Options) statesLater() bool { return o.StatesLater || !o.Always }

// World is a cluster and all around it.
type World struct {
	options  Options
	ctx      context.Context
	rng      *rand.Rand
	now      int64 // µs
	queue    queue
	trace    trace
	err      error
	events   int
	network  network
	server   *memstore.Server
	nodes    []*node
	routers  []*router
	oracle   *oracle
	healed   bool
	disks    int
	sessions uint64
	values   uint64
	stats    Stats
	limits   shardmap.Limits
	storeCut map[string]bool
	cuts     []int64           // times of power cuts
	lost     map[uint16]uint64 // versions of rows that had lost their majority at the last look, by shard
	keys     [][seriesPerShard]series.Key
	// conflicts are the nodes that had given ids to series in an era that is lost, and so cannot
	// take the files of others: a person gives them an empty disk.
	conflicts map[string]bool
	current   *task // the task that runs; nil: none
	timing    Timing
	over      bool // nothing is started any more
}

// Stats count what happened, so that nobody takes an idle cluster for a sound one.
type Stats struct {
	Writes, Deletes, Reads  int // answered
	Failed                  int // operations without an answer in time
	Entries, Epochs         int
	Installs, Drops         int
	Checkpoints             int
	Eras, Kills, CutsWithin int
	Forgotten, Refused      int // series by the oracle, and writes that named one
	Conflicts               int // disks that were replaced, as series had other ids there
	Stranded                int // groups that have lost their majority for good
}

func (s *Stats) add(o *Stats) {
	s.Writes, s.Deletes, s.Reads, s.Failed = s.Writes+o.Writes, s.Deletes+o.Deletes, s.Reads+o.Reads, s.Failed+o.Failed
	s.Entries, s.Epochs, s.Installs, s.Drops = s.Entries+o.Entries, s.Epochs+o.Epochs, s.Installs+o.Installs, s.Drops+o.Drops
	s.Checkpoints, s.CutsWithin, s.Conflicts = s.Checkpoints+o.Checkpoints, s.CutsWithin+o.CutsWithin, s.Conflicts+o.Conflicts
	s.Forgotten, s.Refused = s.Forgotten+o.Forgotten, s.Refused+o.Refused
	s.Eras, s.Kills, s.Stranded = s.Eras+o.Eras, s.Kills+o.Kills, s.Stranded+o.Stranded
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Violation is what a check has found.
type Violation struct {
	Invariant int // 0: the cluster contradicts itself, or does not come to rest
	What      string
	AtMs      int64
}

// Error implements error.
func (v *Violation) Error() string {
	return fmt.Sprintf("invariant %d after %d ms: %s", v.Invariant, v.AtMs, v.What)
}

func (w *World) fail(invariant int, format string, args ...any) {
	if w.err == nil {
		w.err = &Violation{invariant, fmt.Sprintf(format, args...), w.now / 1000}
		w.trace.note("violation", w.err.Error())
	}
}

func (w *World) is(v Variant) bool { return w.options.Variant == v }

func (w *World) between(low, high int64) int64 { return low + w.rng.Int64N(high-low+1) }

// chance is true once in n.
func (w *World) chance(n int) bool { return w.rng.IntN(n) == 0 }

func (w *World) after(delay int64, do func()) { w.queue.push(w.now+max(delay, 0), do) }

// every does something again and again until it returns false. Through run it may be
// delayed, or end.
func (w *World) every(run func(func()), delay func() int64, do func() bool) {
	w.after(delay(), func() {
		run(func() {
			if do() {
				w.every(run, delay, do)
			}
		})
	})
}

func always(do func()) { do() }

func (w *World) node(id string) *node {
	for _, n := range w.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

func newWorld(o Options) *World {
	w := &World{options: o, ctx: context.Background(), rng: rand.New(rand.NewPCG(o.Seed, 0x7469_636b)), server: memstore.NewServer(),
		storeCut: map[string]bool{}, conflicts: map[string]bool{}, keys: keysOf(o.Shards)}
	w.trace.keep = o.Trace
	w.network = network{world: w, cut: map[link]bool{}, slow: map[link]int64{}}
	w.oracle = newOracle(w, o.Shards)
	w.limits = shardmap.DefaultLimits()
	w.limits.MovesMax, w.limits.ReplaceAfterMs, w.limits.RetargetAfterMs = 2, 2500, 1200
	w.limits.Create = shardmap.Creation{Cluster: "sim", ID: fmt.Sprintf("%032x", 0xc1), InitialNodes: min(o.Nodes, 3),
		Settings: shardmap.Settings{Shards: o.Shards, Replication: o.Replication}}
	for i := range o.Nodes {
		w.addNode(i)
	}
	for i := range o.Routers {
		w.routers = append(w.routers, newRouter(w, fmt.Sprintf("r%d", i)))
	}
	w.beginFaults()
	w.every(always, func() int64 { return 200_000 }, func() bool { w.checkNow(); return true })
	w.every(always, func() int64 { return 500_000 }, func() bool { w.rescue(); return true })
	w.every(always, func() int64 { return syncInterval }, func() bool { w.syncAll(); return true })
	w.every(always, func() int64 { return 1_500_000 }, func() bool { w.server.ExpireLeases(); return true })
	return w
}

func (w *World) addNode(i int) *node {
	n := &node{id: fmt.Sprintf("n%d", i), zone: fmt.Sprintf("z%d", i%3), rate: 1}
	if w.options.Faults.has(FaultClocks) {
		n.rate = 0.9 + 0.2*w.rng.Float64()
		n.offset = w.between(-31_536_000_000, 31_536_000_000)
	}
	n.disk = w.newDisk()
	w.nodes = append(w.nodes, n)
	w.start(n)
	return n
}

func (w *World) startIfDown(n *node) {
	if n.process == nil {
		w.start(n)
	}
}

// syncInterval is that of --wal-sync=interval, µs.
const syncInterval = 1_000_000

// syncAll is what --wal-sync=interval does once a second.
func (w *World) syncAll() {
	for _, n := range w.nodes {
		if n.process != nil && n.process.pausedUntil <= w.now && n.process.slowUntil <= w.now {
			if err := n.process.syncLog(); err != nil {
				n.process.fail(0, "sync: %v", err)
			}
		}
	}
}

// Result is what came of a run.
type Result struct {
	Hash  uint64
	Stats Stats
	Err   error // a Violation, or nil
	Trace []string
}

// Run runs a cluster.
func Run(o Options) Result {
	w := newWorld(o)
	w.runUntil(int64(o.ActiveMs) * 1000)
	if w.err == nil {
		w.heal()
		w.rest()
	}
	for i := range w.oracle.shards {
		w.stats.Stranded += oneIf(w.stranded(uint16(i)))
		w.stats.Entries += len(w.oracle.shards[i].entries)
	}
	result := Result{w.trace.hash, w.stats, w.err, w.trace.lines()}
	w.end()
	return result
}

// end lets all processes, and what they have under way, come to an end.
func (w *World) end() {
	w.over, w.err = true, nil
	for _, n := range w.nodes {
		w.kill(n)
	}
	w.runUntil(w.now + 1)
}

// eventsMax bounds a run: one that does so much does not come to an end.
const eventsMax = 5_000_000

func (w *World) runUntil(at int64) {
	for w.err == nil && len(w.queue.events) > 0 && w.queue.events[0].at <= at {
		e := w.queue.pop()
		w.now = e.at
		e.do()
		if w.events++; w.events > eventsMax {
			w.fail(0, "too many events")
		}
	}
	w.now = max(w.now, min(at, w.now+1_000_000))
}

// restMsMax is how long a healed cluster may take to come to rest.
const restMsMax = 40_000

// rest waits until all replicas agree and the map needs no change, then reads all.
func (w *World) rest() {
	deadline := w.now + restMsMax*1000
	why := ""
	for w.err == nil {
		if why = w.unrest(); why == "" {
			break
		}
		if w.now >= deadline {
			w.fail(0, "no rest after %d ms: %s", restMsMax, why)
			return
		}
		w.runUntil(w.now + 200_000)
	}
	for shard := range w.options.Shards {
		for s := range uint64(seriesPerShard) {
			w.readBack(uint16(shard), s)
		}
	}
}
