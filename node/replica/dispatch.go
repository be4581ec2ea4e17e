package replica

import (
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
)

// propose takes a proposal. See Host.Propose.
func (g *group) propose(kind uint8, parts [][]byte, token uint64) error {
	if kind == 0 || kind == KindEmpty || kind == KindChange || kind == KindState || token == 0 {
		return fmt.Errorf("%w: kind %d, token %d", ErrArgument, kind, token)
	}
	if g.single {
		return g.proposeSingle(kind, parts, token)
	}
	return g.proposeNode(kind, parts, token)
}

// read takes a read. See Host.Read.
func (g *group) read(token uint64) error {
	if token == 0 {
		return fmt.Errorf("%w: token 0", ErrArgument)
	}
	if !g.leads() || g.witness() {
		return g.notLeader()
	}
	if g.single {
		g.readReady(token, g.log.last)
		return nil
	}
	if len(g.reading.tokens) >= g.shared.config.ReadsMax {
		return series.ErrOverloaded
	}
	g.reading.tokens = append(g.reading.tokens, token)
	g.wake()
	g.nextRead()
	return nil
}

// collect puts what g has to do into the Round.
func (g *group) collect(round *Round) {
	g.appended = 0
	if g.hold.round == 0 {
		g.collectWork(round)
	}
	if g.logDue {
		state := g.durable()
		if g.appended > 0 {
			// The state stands before the entries. What they replace is not committed.
			state.Commit = min(state.Commit, g.appended-1)
		}
		round.States = append(round.States, state)
		round.Sync = round.Sync || g.syncDue
		if g.shared.config.SyncLater && g.syncDue {
			g.holdFor(round.Number)
		}
		g.logDue, g.syncDue = false, false
		if g.announce && g.hold.round == 0 {
			g.announce = false
			round.Prepared = append(round.Prepared, g.replica.Shard)
		}
	}
	for i := range g.proposals {
		g.proposals[i].own() // it waits, and the driver uses its memory for the next ones
	}
}

// collectWork puts everything but g's state into the Round.
func (g *group) collectWork(round *Round) {
	if g.single && g.change != nil {
		g.leave(round)
	}
	switch {
	case g.single:
		g.collectSingle(round)
	case g.node != nil:
		g.collectNode(round)
	}
}

func (g *group) advance() {
	if g.single {
		g.advanceSingle()
		return
	}
	g.advanceNode()
}

// release releases what waited, in its order, before anything that comes later.
func (g *group) release() {
	held := g.hold
	g.hold = hold{}
	for i := range held.messages {
		g.shared.peers.add(held.messages[i].node, &held.messages[i].message, false)
	}
	g.shared.next.released = append(g.shared.next.released, held.committed...)
	g.shared.next.reads = append(g.shared.next.reads, held.reads...)
	if g.announce && !g.logDue {
		g.announce = false
		g.shared.next.prepared = append(g.shared.next.prepared, g.replica.Shard)
	}
	g.advance()
	g.mark()
}
