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

// syncInterval is that of --wal-sync=interval, µs.
const syncInterval = 1_000_000

// eventsMax bounds a run: one that does so much does not come to an end.
const eventsMax = 5_000_000

// restMsMax is how long a healed cluster may take to come to rest.
const restMsMax = 40_000
