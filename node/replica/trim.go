package replica

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// durable is what a member said about its disk.
type durable struct {
	id         uint64
	index      uint64 // its engine could start without entries up to here
	configured uint64 // it has logged the configuration of this index
}

// Durable says that the engine could start without the shard's entries up to index.
// The leader learns it, and tells all members up to where nobody needs the log any
// more (GroupStatus.Trim). Word of it may be lost: say it again at each checkpoint.
func (h *Host) Durable(shard uint16, index uint64) {
	g := h.group(shard)
	if g == nil {
		return
	}
	g.ownDurable = max(g.ownDurable, index)
	switch {
	case g.lone:
		g.trim = g.ownDurable
	case g.node == nil:
	case g.leads():
		h.spreadTrim(g)
	case g.lead != 0:
		h.sendOwn(g, typeDurable, g.lead, g.ownDurable)
	}
}

func (h *Host) takeDurable(g *group, m *message) {
	if !g.leads() || m.term != g.term {
		return
	}
	said := g.wordOf(m.from)
	if said == nil {
		return
	}
	said.index = max(said.index, m.index)
	if !h.spreadTrim(g) && g.trim > 0 {
		h.sendOwn(g, typeTrim, m.from, g.trim)
	}
}

// wordOf returns what the member has said to this leader; nil for one that is no member.
func (g *group) wordOf(id uint64) *durable {
	at := slices.IndexFunc(g.durables, func(d durable) bool { return d.id == id })
	if at < 0 {
		if !g.config.has(id) || len(g.durables) == membersMax {
			return nil
		}
		g.durables = append(g.durables, durable{id: id})
		at = len(g.durables) - 1
	}
	return &g.durables[at]
}

// spreadTrim tells the members what none of those with data needs any more, if that
// has grown.
func (h *Host) spreadTrim(g *group) bool {
	trim := g.ownDurable
	if g.witness() {
		trim = g.settled
	}
	for _, m := range g.config.Members {
		if m.RaftID == g.replica.RaftID || m.Role != shardmap.Full {
			continue
		}
		its := uint64(0)
		for _, d := range g.durables {
			if d.id == m.RaftID {
				its = d.index
			}
		}
		trim = min(trim, its)
	}
	if trim <= g.trim {
		return false
	}
	h.noteTrim(g, trim)
	h.sendToMembers(g, typeTrim, trim)
	return true
}

// noteTrim takes the leader's word. A witness trims at once: it has no engine whose
// checkpoints its driver could wait for.
func (h *Host) noteTrim(g *group, index uint64) {
	if index <= g.trim {
		return
	}
	g.trim = index
	if g.witness() {
		if at := min(index, g.settled); at > g.log.truncated.Index {
			g.log.truncate(at)
			h.logState(g, false)
		}
	}
}

// CompactTo lets the log forget the shard's entries up to index, or as far as they
// are committed and given out. The next Round has the state to log; only after that
// may the records go. Errors: ErrNoGroup, ErrFault.
func (h *Host) CompactTo(shard uint16, index uint64) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	at := min(index, g.settled, g.log.last)
	if at > g.log.truncated.Index {
		g.log.truncate(at)
		h.logState(g, false)
	}
	return nil
}

// State returns a replica's state, to be logged again at a checkpoint of the node's log.
// It must be called between Advance and Ready. Errors: ErrNoGroup, ErrBusy.
func (h *Host) State(shard uint16) (GroupState, error) {
	g := h.group(shard)
	if g == nil {
		return GroupState{}, ErrNoGroup
	}
	if h.waiting {
		return GroupState{}, fmt.Errorf("%w: a round is under way", ErrBusy)
	}
	return g.durable(), nil
}
