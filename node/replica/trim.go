package replica

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// trim is up to where a group's entries are needed by no engine any more.
type trim struct {
	index   uint64     // entries up to here are needed by nobody, says the leader
	own     uint64     // by the engine here
	members []progress // what members said, as a leader
}

// progress is what a member said about its disk.
type progress struct {
	id         uint64
	index      uint64 // its engine could start without entries up to here
	configured uint64 // it has logged the configuration of this index
}

func (g *group) takeDurable(m *envelope.Message) {
	if !g.leads() || m.Term != g.term {
		return
	}
	said := g.trim.of(m.From, &g.config)
	if said == nil {
		return
	}
	said.index = max(said.index, m.Index)
	if !g.spreadTrim() && g.trim.index > 0 {
		g.sendOwn(envelope.Trim, m.From, g.trim.index)
	}
}

// of returns what the member has said to this leader; nil for one that is not in config.
func (t *trim) of(id uint64, config *Configuration) *progress {
	at := slices.IndexFunc(t.members, func(p progress) bool { return p.id == id })
	if at < 0 {
		if !config.has(id) || len(t.members) == membersMax {
			return nil
		}
		t.members = append(t.members, progress{id: id})
		at = len(t.members) - 1
	}
	return &t.members[at]
}

// spreadTrim sends to the members what none of those with data needs any more, if that
// has grown.
func (g *group) spreadTrim() bool {
	trim := g.trim.own
	if g.witness() {
		trim = g.advanced
	}
	for _, m := range g.config.Members {
		if m.RaftID == g.replica.RaftID || m.Role != shardmap.Full {
			continue
		}
		its := uint64(0)
		for _, d := range g.trim.members {
			if d.id == m.RaftID {
				its = d.index
			}
		}
		trim = min(trim, its)
	}
	if trim <= g.trim.index {
		return false
	}
	g.noteTrim(trim)
	g.sendToMembers(envelope.Trim, trim)
	return true
}

// noteTrim takes the leader's word. A witness trims at once: it has no engine whose
// checkpoints its driver could wait for.
func (g *group) noteTrim(index uint64) {
	if index <= g.trim.index {
		return
	}
	g.trim.index = index
	if g.witness() {
		if at := min(index, g.advanced); at > g.log.truncated.Index {
			g.log.truncate(at)
			g.logState(false)
		}
	}
}

// compactTo drops entries from the log. See Host.CompactTo.
func (g *group) compactTo(index uint64) {
	at := min(index, g.advanced, g.log.last)
	if at > g.log.truncated.Index {
		g.log.truncate(at)
		g.logState(false)
	}
}

// noteDurable takes what the engine here could start without. See Host.Durable.
func (g *group) noteDurable(index uint64) {
	g.trim.own = max(g.trim.own, index)
	switch {
	case g.single:
		g.trim.index = g.trim.own
	case g.node == nil:
	case g.leads():
		g.spreadTrim()
	case g.lead != 0:
		g.sendOwn(envelope.Durable, g.lead, g.trim.own)
	}
}
