package sim

import (
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// append writes to the log, and notes what it returns.
func (p *process) append(buffer *wal.Buffer) (wal.Position, error) {
	start, _, err := p.log.Write(buffer)
	if err != nil {
		return 0, err
	}
	return start, p.log.Replay(start, func(at, _ wal.Position, record []byte) error {
		p.note(record, at, true)
		return nil
	})
}

// sync makes durable what is written, and then does something.
func (p *process) sync(delay int64, do func()) {
	p.after(delay+int64(p.world.options.SyncMs)*1000+p.world.between(50, 800), func() {
		if err := p.syncLog(); err != nil {
			p.fail(0, "sync: %v", err)
			return
		}
		do()
	})
}

func (p *process) syncLog() error {
	_, err := p.log.Sync()
	p.disk.synced = max(p.disk.synced, p.log.Synced())
	return err
}

// syncForEngine is called by the engine before a manifest counts pages.
func (p *process) syncForEngine() error {
	if p.world.is(CheckpointAheadOfLog) {
		return nil
	}
	return p.syncLog()
}

// syncStates is sync of states while the loop goes on.
func (p *process) syncStates(do func()) {
	if p.world.is(StatesNotHeld) {
		do() // what is written becomes durable with an entry, or within a second
		return
	}
	p.sync(max(0, p.slowUntil-p.world.now), do)
}

// note keeps the image of the log, of a record that is new or read back at the start.
func (p *process) note(record []byte, position wal.Position, isNew bool) {
	e, err := entry.Parse(record)
	if err != nil {
		p.fail(0, "a record of its own: %v", err)
		return
	}
	g := &p.disk.images[e.Shard]
	if e.Kind != entry.GroupState {
		g.add(&e, position)
		return
	}
	state, err := replica.ParseGroupState(e.Body)
	if err != nil {
		p.fail(0, "a state of its own: %v", err)
		return
	}
	p.noteState(g, &state, isNew)
}

func (p *process) noteState(g *image, state *replica.GroupState, isNew bool) {
	shard := state.Shard
	if state.Removed {
		if g.raftID <= state.RaftID {
			*g, p.terms[shard] = image{}, 0
		}
		p.world.oracle.retired[replicaID{shard, state.RaftID}] = true
		return
	}
	if isNew && p.owns(state) {
		p.world.oracle.made(p, shard, state.RaftID)
	}
	if g.raftID != state.RaftID {
		if g.raftID != 0 && state.Era <= g.era { // else the log began with entries, or goes on in another era
			*g = image{}
		}
		g.raftID, p.terms[shard] = state.RaftID, 0
	}
	g.era, g.role = state.Era, state.Role
	if state.Term < p.terms[shard] {
		p.fail(7, "shard %d raft id %d is in term %d after %d", shard, state.RaftID, state.Term, p.terms[shard])
	}
	p.terms[shard] = state.Term
	at := state.Truncated
	if e := g.at(at.Index); at.Index > g.last() || e != nil && e.entry.Term != at.Term {
		*g = image{raftID: state.RaftID, era: state.Era, role: state.Role, first: at.Index + 1} // files were installed
	}
}

// owns reports whether a state is of a replica that this incarnation of the disk has made:
// those of former ones are kept in the log, too.
func (p *process) owns(state *replica.GroupState) bool {
	for _, list := range [2][]shardmap.Member{state.Configuration.Members, state.Configuration.Leaving} {
		for _, m := range list {
			if m.RaftID == state.RaftID {
				return m.Incarnation == p.disk.incarnation
			}
		}
	}
	return len(state.Configuration.Voters) == 0 // else it has left, and was made before
}
