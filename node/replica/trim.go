package replica

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// durable is what a member said about its disk.
type durable struct {
	id         uint64
	index      uint64 // its engine could start without entries up to here
	configured uint64 // it has logged the configuration of this index
}

func (g *group) takeDurable(m *message) {
	if !g.leads() || m.term != g.term {
		return
	}
	said := g.wordOf(m.from)
	if said == nil {
		return
	}
	said.index = max(said.index, m.index)
	if !g.spreadTrim() && g.trim > 0 {
		g.sendOwn(typeTrim, m.from, g.trim)
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
func (g *group) spreadTrim() bool {
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
	g.noteTrim(trim)
	g.sendToMembers(typeTrim, trim)
	return true
}

// noteTrim takes the leader's word. A witness trims at once: it has no engine whose
// checkpoints its driver could wait for.
func (g *group) noteTrim(index uint64) {
	if index <= g.trim {
		return
	}
	g.trim = index
	if g.witness() {
		if at := min(index, g.settled); at > g.log.truncated.Index {
			g.log.truncate(at)
			g.logState(false)
		}
	}
}

// compactTo lets the log forget entries. See Host.CompactTo.
func (g *group) compactTo(index uint64) error {
	at := min(index, g.settled, g.log.last)
	if at > g.log.truncated.Index {
		g.log.truncate(at)
		g.logState(false)
	}
	return nil
}

// noteDurable takes what the engine here could start without. See Host.Durable.
func (g *group) noteDurable(index uint64) {
	g.ownDurable = max(g.ownDurable, index)
	switch {
	case g.lone:
		g.trim = g.ownDurable
	case g.node == nil:
	case g.leads():
		g.spreadTrim()
	case g.lead != 0:
		g.sendOwn(typeDurable, g.lead, g.ownDurable)
	}
}
