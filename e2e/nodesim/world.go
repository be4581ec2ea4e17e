package nodesim

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const (
	nodesMax   = 4
	shards     = 2
	activeMs   = 4000 // with faults; then all is healed
	restMsMax  = 20_000
	eventsMax  = 1_000_000
	tickMicros = 50_000
)

// Options say what is simulated.
type Options struct {
	Seed    uint64
	Variant Variant
}

// event is something that happens at a time; those of one time happen in the order in which
// they were made.
type event struct {
	at  int64 // µs
	seq uint64
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// world is a cluster and all around it.
type world struct {
	options Options
	rng     *rand.Rand
	now     int64 // µs
	queue   events
	seq     uint64
	hash    uint64
	stats   Stats
	err     error
	healed  bool
	over    bool // nothing is started any more
	nodes   []*node
	cut     map[[2]string]bool
	clients []*client
	current *task // the task that runs; nil: none
	rows    *shardmap.Map
	known   map[sampleKey]*truth
}

// Stats count what happened, so that nobody takes an idle cluster for a sound one.
type Stats struct {
	Writes, Reads, Starts, PowerCuts, Checkpoints, Installs, Drops, Moves int
}

// Result is what came of a run.
type Result struct {
	Hash  uint64
	Stats Stats
	Err   error
}

func (w *world) after(delay int64, do func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + max(delay, 0), w.seq, do})
}

func (w *world) between(low, high int64) int64 { return low + w.rng.Int64N(high-low+1) }
func (w *world) chance(n int) bool             { return w.rng.IntN(n) == 0 }
func (w *world) is(v Variant) bool             { return w.options.Variant == v }

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("after %d ms: "+format, append([]any{w.now / 1000}, args...)...)
	}
}

// note adds an event to the hash by which two runs of a seed are compared.
func (w *world) note(what string, numbers ...uint64) {
	for i := range len(what) {
		w.hash = (w.hash ^ uint64(what[i])) * 1099511628211
	}
	for _, n := range numbers {
		w.hash = (w.hash ^ n) * 1099511628211
	}
}

func (w *world) runUntil(at int64) {
	for n := 0; w.err == nil && len(w.queue) > 0 && w.queue[0].at <= at; n++ {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		if e.do(); n > eventsMax {
			w.fail("too many events")
		}
	}
	w.now = max(w.now, at)
}

// task is a procedure of the product that waits in its middle. It has a goroutine of its own,
// of which the world waits until it waits or ends: never do two run at once.
type task struct{ in, out chan struct{} }

func (w *world) start(run func()) {
	t := &task{make(chan struct{}), make(chan struct{})}
	go func() {
		<-t.in
		run()
		t.out <- struct{}{}
	}()
	w.resume(t)
}

func (w *world) resume(t *task) {
	before := w.current
	w.current = t
	t.in <- struct{}{}
	<-t.out
	w.current = before
}

// wait gives the world the turn until the waker that arrange is given was called.
func (w *world) wait(arrange func(wake func())) {
	t := w.current
	woken := false
	arrange(func() {
		if !woken {
			woken = true
			w.after(0, func() { w.resume(t) })
		}
	})
	t.out <- struct{}{}
	<-t.in
}

func newWorld(o Options) *world {
	w := &world{options: o, rng: rand.New(rand.NewPCG(o.Seed, 0x6e6f6465)), cut: map[[2]string]bool{}, known: map[sampleKey]*truth{}}
	for i := range nodesMax {
		n := &node{world: w, id: fmt.Sprintf("n%d", i), disk: vfs.NewMemFS()}
		w.nodes = append(w.nodes, n)
		n.start()
		if n.process == nil {
			return w
		}
	}
	w.rows = &shardmap.Map{Epoch: 1, Settings: shardmap.Settings{Shards: shards, Replication: 3}}
	for shard := range shards {
		row := shardmap.Row{Version: 1, RaftIDLast: 3, Era: 1, Fresh: true}
		for i := range 3 {
			row.Members = append(row.Members, w.nodes[(shard+i)%nodesMax].member(uint64(i+1)))
		}
		w.rows.Rows = append(w.rows.Rows, row)
	}
	w.tellMap()
	for i := range 3 {
		c := &client{world: w, number: i, session: uint64(i + 1)}
		w.clients = append(w.clients, c)
		w.after(w.between(0, 100_000), c.next)
	}
	w.every(150_000, 700_000, w.trouble)
	w.every(300_000, 900_000, w.move)
	w.every(50_000, 150_000, w.settle)
	return w
}

// every does something again and again until all is healed.
func (w *world) every(low, high int64, do func()) {
	w.after(w.between(low, high), func() {
		do()
		w.every(low, high, do)
	})
}

// trouble is one fault of chance.
func (w *world) trouble() {
	if w.healed {
		return
	}
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	switch w.rng.IntN(6) {
	case 0, 1:
		n.end(false)
		w.after(w.between(1000, 800_000), n.start)
	case 2:
		n.end(true)
		w.after(w.between(1000, 800_000), n.start)
	case 3: // the whole house
		for _, n := range w.nodes {
			n.end(true)
			w.after(w.between(1000, 400_000), n.start)
		}
	case 4:
		other := w.nodes[w.rng.IntN(len(w.nodes))]
		links := [2][2]string{{n.id, other.id}, {other.id, n.id}}
		for _, l := range links {
			w.cut[l] = true
		}
		w.after(w.between(50_000, 1_500_000), func() {
			for _, l := range links {
				delete(w.cut, l)
			}
		})
	case 5:
		if n.process != nil {
			n.process.slowUntil = w.now + w.between(10_000, 600_000)
		}
	}
}

// move changes the members of a shard, so that files travel and data is dropped.
func (w *world) move() {
	shard := w.rng.IntN(shards)
	row := &w.rows.Rows[shard]
	if w.healed || row.Intended != nil || row.Fresh && w.now < 500_000 {
		return
	}
	for _, n := range w.nodes {
		if slices.ContainsFunc(row.Members, func(m shardmap.Member) bool { return m.Node == n.id }) || n.incarnation == "" {
			continue
		}
		next := w.rows.Clone()
		to := &next.Rows[shard]
		to.RaftIDLast++
		to.Version++
		to.Intended = slices.Clone(to.Members)
		at := w.rng.IntN(len(to.Intended))
		to.Intended = append(slices.Delete(to.Intended, at, at+1), n.member(to.RaftIDLast)) // by raft id
		next.Epoch++
		w.rows = &next
		w.stats.Moves++
		w.tellMap()
		return
	}
}

// settle writes what groups have reached into the map, as placement does.
func (w *world) settle() {
	for _, n := range w.nodes {
		if p := n.process; p != nil {
			p.command(func() {
				for _, s := range p.machine.Settlements() {
					w.settled(p, s)
				}
			}, nil)
		}
	}
}

func (w *world) settled(p *process, s commit.Settlement) {
	status, err := p.machine.Host().Status(s.Shard)
	if err != nil || !status.Leads || !w.confirmed(s.Shard, &s) {
		return
	}
	row, differs := w.rows.Rows[s.Shard].Settled(s.Config)
	if !differs {
		return
	}
	next := w.rows.WithRow(s.Shard, row)
	w.rows = &next
	w.tellMap()
}

// confirmed reports whether no other process knows of a later configuration: what ReadIndex
// confirms in the product.
func (w *world) confirmed(shard uint16, s *commit.Settlement) bool {
	for _, n := range w.nodes {
		if n.process == nil {
			continue
		}
		if status, err := n.process.machine.Host().Status(shard); err == nil && status.Term > s.Term {
			return false
		}
	}
	return true
}

func (w *world) tellMap() {
	m := w.rows
	for _, n := range w.nodes {
		if p := n.process; p != nil {
			p.adopt(m)
		}
	}
}

// Run runs a cluster.
func Run(o Options) Result {
	w := newWorld(o)
	defer w.end()
	w.runUntil(activeMs * 1000)
	w.healed = true
	clear(w.cut)
	for _, n := range w.nodes {
		n.start()
	}
	why := ""
	for deadline := w.now + restMsMax*1000; w.err == nil; w.runUntil(w.now + 200_000) {
		if why = w.unrest(); why == "" {
			w.readBack()
			break
		}
		if w.now > deadline {
			w.fail("no rest: %s", why)
		}
	}
	return Result{w.hash, w.stats, w.err}
}

// end lets all processes, and what they have under way, come to an end.
func (w *world) end() {
	w.over, w.err = true, nil
	for _, n := range w.nodes {
		n.end(false)
	}
	w.runUntil(w.now + 1)
}

// unrest returns what is not yet as it should be in the end; empty: all is.
func (w *world) unrest() string {
	for _, c := range w.clients {
		if c.open {
			return "an operation is under way"
		}
	}
	for shard := range uint16(shards) {
		row := &w.rows.Rows[shard]
		if row.Intended != nil {
			return fmt.Sprintf("shard %d moves from %v to %v%s", shard, row.Members, row.Intended, w.describe(shard))
		}
		last, leaders := uint64(0), 0
		for _, n := range w.nodes {
			if n.process == nil {
				return n.id + " is down"
			}
			status, err := n.process.machine.Host().Status(shard)
			m, member := row.MemberOn(n.id, n.incarnation)
			switch {
			case !member && (err == nil || n.process.engine.AppliedIndexes()[shard] > 0):
				return fmt.Sprintf("%s has shard %d", n.id, shard)
			case !member:
				continue
			case err != nil || status.RaftID != m.RaftID:
				return fmt.Sprintf("%s lacks shard %d: %v", n.id, shard, err)
			case status.Fault != nil:
				w.fail("%s: shard %d has stopped: %v", n.id, shard, status.Fault)
			case status.Commit != status.Last || last > 0 && status.Last != last:
				return fmt.Sprintf("%s: shard %d commit %d of %d", n.id, shard, status.Commit, status.Last)
			case n.process.applied[shard] != status.Last:
				return fmt.Sprintf("%s: shard %d applied %d of %d", n.id, shard, n.process.applied[shard], status.Last)
			}
			last = status.Last
			if status.Leads {
				leaders++
			}
		}
		if leaders != 1 {
			return fmt.Sprintf("shard %d has %d leaders", shard, leaders)
		}
	}
	return ""
}

// describe tells of a shard's replicas.
func (w *world) describe(shard uint16) (text string) {
	for _, n := range w.nodes {
		if n.process == nil {
			continue
		}
		if s, err := n.process.machine.Host().Status(shard); err == nil {
			text += fmt.Sprintf("; %s: raft id %d, leads %v, last %d, commit %d, applied %d, configuration %v, installing %v", n.id, s.RaftID, s.Leads, s.Last, s.Commit,
				n.process.applied[shard], s.Configuration.Members, s.Installing)
		}
	}
	return text
}

// readBack compares the copies of each shard, and what they have with what was answered.
func (w *world) readBack() {
	for shard := range uint16(shards) {
		var first uint64
		for _, m := range w.rows.Rows[shard].Members {
			p := w.node(m.Node).process
			d, err := p.engine.ShardDigest(context.Background(), shard, 0, 1<<50)
			if err != nil {
				w.fail("%s: digest of shard %d: %v", m.Node, shard, err)
				return
			}
			if first == 0 {
				first = d.Sum
			}
			if d.Sum != first {
				w.fail("%s: shard %d is not what another full voter has at the same entry", m.Node, shard)
			}
			for key, is := range w.known {
				if key.shard == shard {
					is.check(w, m.Node+" in the end", key, p.read(key))
				}
			}
		}
		w.note("digest", first)
	}
}

func (w *world) node(id string) *node {
	return w.nodes[slices.IndexFunc(w.nodes, func(n *node) bool { return n.id == id })]
}

var errDead = errors.New("the process is dead")
