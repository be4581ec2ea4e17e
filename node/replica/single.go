package replica

import (
	"github.com/tickmesh/tickmesh/api/series"
)

func (g *group) proposeSingle(kind uint8, parts [][]byte, token uint64) error {
	if len(g.proposals)+g.inFlight >= g.shared.config.ProposalsMax {
		return series.ErrOverloaded
	}
	g.proposals = append(g.proposals, proposal{kind: kind, token: token, parts: parts})
	g.mark()
	return nil
}

// collectSingle puts the proposals into the Round. They wait for a state that has to be
// durable first.
func (g *group) collectSingle(round *Round) {
	if len(g.proposals) == 0 || g.holds() {
		return
	}
	for i := range g.proposals {
		p := &g.proposals[i]
		index := g.log.note(g.term)
		round.Appends = append(round.Appends, Append{Shard: g.replica.Shard, Kind: p.kind, Term: g.term,
			Index: index, Commit: index, Parts: p.parts})
		round.Committed = append(round.Committed, Committed{Shard: g.replica.Shard, Kind: p.kind, Term: g.term,
			Index: index, Parts: p.parts, Token: p.token, Copies: 1})
		p.parts = nil
	}
	g.inFlight = len(g.proposals)
	g.proposals = g.proposals[:0]
	g.shared.next.inRound = append(g.shared.next.inRound, g)
}

func (g *group) advanceSingle() {
	g.inFlight = 0
	g.allDone()
}

// leave starts, for a group with a single voter, a node of the library, and lets it win the election that
// it alone decides. That is sound although the new term is not written yet: no other
// replica can hear of it before the Round is. Called with nothing in flight.
func (g *group) leave(round *Round) {
	g.allDone()
	g.startNode(g.log.last)
	if g.fault != nil {
		return
	}
	g.campaign()
	const stepsMax = 16 // a candidate needs four
	for range stepsMax {
		if g.node == nil || !g.node.HasReady() {
			break
		}
		g.collectNode(round)
		g.advanceNode()
	}
	waiting := g.proposals
	g.proposals = nil
	for i, p := range waiting {
		if err := g.proposeNode(p.kind, p.parts, p.token); err != nil {
			g.fail(waiting[i].token, err)
		}
	}
	change := g.change
	g.change = nil
	if change != nil && g.node != nil {
		_ = g.proposeChange(change) // who wants it asks again while the members differ
	}
}
