package sim

import (
	"cmp"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// start runs the node's process on its folder.
func (w *World) start(n *node) {
	shards := w.options.Shards
	p := &process{world: w, node: n, folder: n.folder, places: make([]places, shards),
		engine: make([]*shardState, shards), dispatched: make([]uint64, shards), cleaning: make([]bool, shards),
		fetching: make([]bool, shards), waiting: make([]shardQueue, shards), tokens: map[uint64]inflight{},
		preparing: map[uint16]func(){}, reads: map[uint64]*readWait{}, awaiting: make([][]*readWait, shards), terms: make([]uint64, shards)}
	n.runs++
	if n.folder.power && !w.options.Always && !w.is(VoteWithoutTail) {
		w.reincarnate(n, p)
	}
	n.folder.power, n.folder.lost = false, false
	seen := shardmap.Seen{}
	if n.folder.kept != nil {
		seen = shardmap.Seen{ClusterID: n.folder.kept.ID, Epoch: n.folder.kept.Epoch}
	}
	p.folder, p.store = n.folder, w.server.Open(seen)
	p.folder.sync(p.folder.end()) // a start writes anew what it cannot prove to be on disk
	for shard := range p.engine {
		state := p.folder.shards[shard].clone()
		if w.is(BatchIDsInMemory) {
			state.table = batchTable{}
		}
		p.engine[shard] = &state
		p.folder.images[shard] = image{}
	}
	clear(p.terms)
	groups := p.recover()
	p.newHost(n.runs)
	for shard := range groups {
		g := &groups[shard]
		p.dispatched[shard] = p.engine[shard].applied
		if !g.known {
			if p.engine[shard].applied > 0 {
				p.drop(uint16(shard))
				p.dispatched[shard] = 0
			}
			continue
		}
		g.summary.Applied = p.engine[shard].applied
		if err := p.host.Restore(g.state, g.summary); err != nil {
			w.fail(0, "%s: restore shard %d: %v", n.id, shard, err)
		}
	}
	n.process = p
	w.trace.note("start", n.id, int(n.runs))
	p.live()
}

func (p *process) newHost(run uint64) {
	host, err := replica.New(replica.Config{Node: p.node.id, Incarnation: p.folder.incarnation, Run: run, Seed: p.world.rng.Uint64(),
		SyncLater: p.world.options.statesLater(), HibernateTicks: 8, MessageBytesMax: 512, InflightBytesMax: 4096, CacheBytesMax: 2048, ApplyBytesMax: 1024}, p)
	if err != nil {
		p.world.fail(0, "%s: %v", p.node.id, err)
	}
	p.host = host
}

// live begins what goes on by itself.
func (p *process) live() {
	w := p.world
	w.every(p.run, func() int64 { return int64(50_000 / p.node.rate) }, func() bool {
		p.inbox.ticks++
		p.wake()
		return !p.dead
	})
	w.every(p.run, func() int64 { return w.between(400_000, 1_500_000) }, func() bool { p.publish(); return !p.dead })
	w.every(p.run, func() int64 { return w.between(20_000, 150_000) }, func() bool { p.watch(); return !p.dead })
	w.every(p.run, func() int64 { return w.between(100_000, 300_000) }, func() bool { p.settle(); return !p.dead })
	w.every(p.run, func() int64 { return w.between(300_000, 600_000) }, func() bool {
		p.register()
		p.command(p.placeAll)
		return !p.dead
	})
	if kept := p.folder.kept; kept != nil {
		p.command(func() { p.follow(kept) })
	}
	p.beginEpoch()
	p.register()
	w.tellPeers(p.node.id, true)
}

// kill ends the process; of a round that is being written, a first part may be down.
func (w *World) kill(n *node) {
	p := n.process
	if p == nil {
		return
	}
	p.dead, n.process = true, nil
	if p.writing && len(p.records) > 0 {
		p.folder.write(p.records[:w.rng.IntN(len(p.records)+1)])
	}
	p.store.SetReachable(false)
	w.trace.note("kill", n.id)
	w.tellPeers(n.id, false)
}

// relic is what a folder has of a replica that may not go on as such: after a power
// cut in interval mode, its log may lack what it has acknowledged.
type relic struct {
	shard  uint16
	raftID uint64
	era    uint32
	last   replica.Position
	role   shardmap.Role
	config replica.Configuration
	terms  []replica.TermRun // of its log
	state  shardState
}

// termAt gives the term of an entry; 0: the log does not reach back so far.
func (r *relic) termAt(index uint64) (term uint64) {
	for _, run := range r.terms {
		if run.First <= index {
			term = run.Term
		}
	}
	return term
}

// reincarnate makes the folder another one, in which the old replicas are relics.
func (w *World) reincarnate(n *node, p *process) {
	fallen := n.folder
	for shard := range p.engine {
		state := fallen.shards[shard].clone()
		p.engine[shard] = &state
	}
	groups := p.recover()
	next := w.newFolder(n.id)
	next.kept = fallen.kept
	next.former = append(fallen.former, fallen.incarnation)
	next.relics = fallen.relics
	for shard := range groups {
		g := &groups[shard]
		if !g.known || len(g.state.Configuration.Voters) == 0 { // that one may not have known its group
			continue
		}
		for i := range g.pending { // what may have been acknowledged counts
			if g.state.Role == shardmap.Witness {
				break // it has a log and no data
			}
			p.replay(g.pending[i].at, &g.pending[i].entry)
		}
		state := p.engine[shard].clone()
		state.ahead = 0
		last := replica.Position{Index: state.applied, Term: g.state.Truncated.Term}
		if k := len(g.summary.Runs); k > 0 {
			last.Term = g.summary.Runs[k-1].Term
		}
		next.relics = append(next.relics, relic{uint16(shard), g.state.RaftID, g.state.Era, last, g.state.Role, g.state.Configuration, g.summary.Runs, state})
	}
	n.folder = next
	p.places = make([]places, len(p.engine))
	w.trace.note("reincarnate", n.id)
}

// better reports whether to go on from r rather than from other.
func (r *relic) better(other *relic) bool {
	return cmp.Or(cmp.Compare(r.era, other.era), cmp.Compare(r.last.Term, other.last.Term), cmp.Compare(r.last.Index, other.last.Index)) > 0
}

// relic finds what a folder has of a replica.
func (f *folder) relic(shard uint16, id uint64) *relic {
	for i := range f.relics {
		if r := &f.relics[i]; r.shard == shard && r.raftID == id {
			return r
		}
	}
	return nil
}

// forgetRelics lets relics go once their group has gone on without them.
func (p *process) forgetRelics(shard uint16, row *shardmap.Row) {
	p.folder.relics = slices.DeleteFunc(p.folder.relics, func(r relic) bool {
		named := slices.ContainsFunc(row.Members, func(m shardmap.Member) bool { return m.RaftID == r.raftID })
		return r.shard == shard && (row.Era == r.era && !row.Fresh && !named || row.Era > r.era && len(row.Members) > 1)
	})
}

// resurrect makes a lone group of the best relic, if that is what the map wants.
func (p *process) resurrect(shard uint16, row *shardmap.Row, self shardmap.Member) bool {
	var r *relic
	for i := range p.folder.relics {
		other := &p.folder.relics[i]
		if other.shard == shard && other.role != shardmap.Witness && other.era < row.Era && (r == nil || other.better(r)) {
			r = other
		}
	}
	if r == nil || len(row.Members) != 1 || !row.Members[0].SameReplica(self) {
		return false
	}
	state := r.state.clone()
	state.generation = p.engine[shard].generation + 1
	p.engine[shard] = &state
	p.folder.shards[shard] = durableShard{shardState: state.clone(), logPosition: p.folder.end()}
	p.dispatched[shard] = state.applied
	p.folder.images[shard] = image{raftID: self.RaftID, era: row.Era, first: r.last.Index + 1}
	if r.last.Index == 0 {
		empty := replica.Replica{Shard: shard, RaftID: self.RaftID, Era: row.Era, Role: self.Role}
		if err := p.host.Create(empty, row.Members); err != nil {
			p.world.fail(0, "%s: shard %d begins again: %v", p.node.id, shard, err)
		}
		return true
	}
	group := replica.GroupState{
		Replica: replica.Replica{Shard: shard, RaftID: self.RaftID, Era: row.Era, Role: self.Role},
		Term:    r.last.Term, Vote: self.RaftID, Commit: r.last.Index, Truncated: r.last,
		Configuration: replica.Configuration{Index: r.last.Index, Members: []shardmap.Member{self}, Voters: []uint64{self.RaftID}},
	}
	if err := p.host.Restore(group, replica.LogSummary{Last: r.last.Index, Applied: r.last.Index}); err != nil {
		p.world.fail(0, "%s: resurrect shard %d: %v", p.node.id, shard, err)
	}
	p.world.trace.note("resurrect", p.node.id, int(shard))
	return true
}
