package replica

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"

	"github.com/tickmesh/tickmesh/api/series"
)

// Propose asks for an entry. The token, not 0, comes back in Committed or in Failed.
// The parts must not change until Ready has been called and its Round, if it gave one,
// is over: what has to wait longer is copied. Errors, after which nothing is proposed:
// NotLeaderError, series.ErrOverloaded (too much without an outcome), ErrBusy (the
// leadership is being transferred), ErrNoGroup, ErrFault, ErrArgument.
func (h *Host) Propose(shard uint16, kind uint8, parts [][]byte, token uint64) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	if kind == 0 || kind == KindEmpty || kind == KindChange || kind == KindState || token == 0 {
		return fmt.Errorf("%w: kind %d, token %d", ErrArgument, kind, token)
	}
	if g.lone {
		return h.proposeLone(g, kind, parts, token)
	}
	return h.proposeNode(g, kind, parts, token)
}

func (h *Host) proposeNode(g *group, kind uint8, parts [][]byte, token uint64) (err error) {
	if !g.leads() || g.witness() {
		return g.notLeader()
	}
	if len(g.proposed)+len(g.pending) >= h.config.ProposalsMax {
		return series.ErrOverloaded
	}
	defer func() {
		if g.fault != nil { // the library has panicked: the token was not taken
			err = g.fault
		}
	}()
	defer h.contain(g)
	size := 1
	for _, part := range parts {
		size += len(part)
	}
	data := append(make([]byte, 0, size), kind)
	for _, part := range parts {
		data = append(data, part...)
	}
	h.wake(g)
	err = g.node.Propose(data)
	switch {
	case err == nil:
		g.proposed = append(g.proposed, proposal{token: token, term: g.term})
		h.mark(g)
	case !errors.Is(err, raft.ErrProposalDropped):
		return fmt.Errorf("shard %d: %w", g.replica.Shard, err)
	case g.node.BasicStatus().RaftState != raft.StateLeader:
		return &NotLeaderError{Shard: g.replica.Shard}
	case g.transferee != raft.None:
		return ErrBusy
	default:
		return series.ErrOverloaded
	}
	return nil
}

// readQueue gathers reads: while one confirmation is under way, later reads wait for
// the next.
type readQueue struct {
	tokens   []uint64 // those under way first
	underWay int
	number   uint64 // of the confirmation under way
}

func (q *readQueue) drain() []uint64 {
	tokens := q.tokens
	q.tokens, q.underWay = nil, 0
	return tokens
}

// Read asks for an index such that what is applied up to it is all that was committed
// before the call. The token, not 0, comes back in Reads or in Failed. Errors:
// NotLeaderError, series.ErrOverloaded, ErrNoGroup, ErrFault, ErrArgument.
func (h *Host) Read(shard uint16, token uint64) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	if token == 0 {
		return fmt.Errorf("%w: token 0", ErrArgument)
	}
	if !g.leads() || g.witness() {
		return g.notLeader()
	}
	if g.lone {
		h.readReady(g, token, g.log.last)
		return nil
	}
	if len(g.reading.tokens) >= h.config.ReadsMax {
		return series.ErrOverloaded
	}
	g.reading.tokens = append(g.reading.tokens, token)
	h.wake(g)
	h.nextRead(g)
	return nil
}

func (h *Host) readReady(g *group, token, index uint64) {
	ready := ReadReady{Shard: g.replica.Shard, Token: token, Index: index}
	if h.holds(g) {
		g.hold.reads = append(g.hold.reads, ready)
	} else {
		h.reads = append(h.reads, ready)
	}
}

// nextRead starts a confirmation for all reads that wait, if none is under way.
func (h *Host) nextRead(g *group) {
	q := &g.reading
	if q.underWay > 0 || len(q.tokens) == 0 || g.node == nil {
		return
	}
	// A new leader does not know yet what is committed. The library waits for an entry
	// of its own term, but not in a group with a single voter.
	if term, err := g.log.term(g.commit); err != nil || term != g.term {
		return
	}
	defer h.contain(g)
	q.underWay = len(q.tokens)
	q.number++
	g.node.ReadIndex(binary.LittleEndian.AppendUint64(nil, q.number))
	h.mark(g)
}

func (h *Host) readConfirmed(g *group, state raft.ReadState) {
	q := &g.reading
	if len(state.RequestCtx) != 8 || binary.LittleEndian.Uint64(state.RequestCtx) != q.number || q.underWay == 0 {
		return // of an earlier leadership
	}
	for _, token := range q.tokens[:q.underWay] {
		h.readReady(g, token, state.Index)
	}
	q.tokens = append(q.tokens[:0], q.tokens[q.underWay:]...)
	q.underWay = 0
	h.nextRead(g)
}
