package sim

import (
	"bytes"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// image is what a disk's log has of one replica, for the checks. It is made of the records
// that the log returns after they were written, or at a start.
type image struct {
	raftID  uint64
	era     uint32
	role    shardmap.Role
	first   uint64 // index of the first entry
	entries []imageEntry
}

type imageEntry struct {
	entry    entry.Entry
	position wal.Position
}

// add notes an entry, which replaces those from its index on.
func (g *image) add(e *entry.Entry, position wal.Position) {
	kept := *e
	kept.Body = bytes.Clone(e.Body)
	if len(g.entries) == 0 || e.Index < g.first || e.Index > g.first+uint64(len(g.entries)) {
		g.first, g.entries = e.Index, g.entries[:0]
	}
	g.entries = append(g.entries[:e.Index-g.first], imageEntry{kept, position})
}

// last returns the index of the last entry that the log has had.
func (g *image) last() uint64 {
	if g.first == 0 {
		return 0
	}
	return g.first + uint64(len(g.entries)) - 1
}

// at returns an entry; nil: the log does not have it, or not any more.
func (g *image) at(index uint64) *imageEntry {
	if index < g.first || index-g.first >= uint64(len(g.entries)) {
		return nil
	}
	return &g.entries[index-g.first]
}

// has reports whether the entry is in the log, before a position if that is asked for.
func (g *image) has(index, term uint64, before wal.Position) bool {
	if index < g.first {
		return true // trimmed: it was applied durably
	}
	e := g.at(index)
	return e != nil && e.entry.Term == term && e.position < before
}

// cut forgets entries at and after a position.
func (g *image) cut(end wal.Position) {
	for n := len(g.entries); n > 0 && g.entries[n-1].position >= end; n-- {
		g.entries = g.entries[:n-1]
	}
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
