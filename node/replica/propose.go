package replica

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"

	"github.com/tickmesh/tickmesh/api/series"
)

func (g *group) proposeNode(kind uint8, parts [][]byte, token uint64) (err error) {
	if !g.leads() || g.witness() {
		return g.notLeader()
	}
	if len(g.proposed)+len(g.pending) >= g.shared.config.ProposalsMax {
		return series.ErrOverloaded
	}
	defer func() {
		if g.fault != nil { // the library has panicked: the token was not taken
			err = g.fault
		}
	}()
	defer g.contain()
	size := 1
	for _, part := range parts {
		size += len(part)
	}
	if !g.shared.hasRoom(g, size) && !g.shared.mayExceed(g, g.term) {
		return fmt.Errorf("%w: the entries of all shards of this node hold %d of %d bytes", series.ErrOverloaded, g.shared.heldBytes, g.shared.config.EntriesBytesMax)
	}
	data := append(make([]byte, 0, size), kind)
	for _, part := range parts {
		data = append(data, part...)
	}
	g.wake()
	err = g.node.Propose(data)
	switch {
	case err == nil:
		g.proposed = append(g.proposed, proposal{token: token, term: g.term})
		g.mark()
	case !errors.Is(err, raft.ErrProposalDropped):
		return fmt.Errorf("shard %d: %w", g.replica.Shard, err)
	case g.node.BasicStatus().RaftState != raft.StateLeader:
		return &NotLeaderError{Shard: g.replica.Shard}
	case g.handingOver():
		return ErrBusy
	default:
		return series.ErrOverloaded
	}
	return nil
}

func (g *group) readReady(token, index uint64) {
	ready := ReadReady{Shard: g.replica.Shard, Token: token, Index: index}
	if g.holds() {
		g.hold.reads = append(g.hold.reads, ready)
	} else {
		g.shared.next.reads = append(g.shared.next.reads, ready)
	}
}

// nextRead starts a confirmation for all reads that wait, if none is under way.
func (g *group) nextRead() {
	q := &g.reading
	if q.underWay > 0 || len(q.tokens) == 0 || g.node == nil {
		return
	}
	// A new leader does not know yet what is committed. The library waits for an entry
	// of its own term, but not in a group with a single voter.
	if term, err := g.log.term(g.commit); err != nil || term != g.term {
		return
	}
	defer g.contain()
	q.underWay = len(q.tokens)
	q.number++
	g.node.ReadIndex(binary.LittleEndian.AppendUint64(nil, q.number))
	g.mark()
}

func (g *group) readConfirmed(state raft.ReadState) {
	q := &g.reading
	if len(state.RequestCtx) != 8 || binary.LittleEndian.Uint64(state.RequestCtx) != q.number || q.underWay == 0 {
		return // of an earlier leadership
	}
	for _, token := range q.tokens[:q.underWay] {
		g.readReady(token, state.Index)
	}
	q.tokens = append(q.tokens[:0], q.tokens[q.underWay:]...)
	q.underWay = 0
	g.nextRead()
}
