package replica

import "slices"

// hold is what a group may not do before its newest state is durable: with
// Config.SyncLater the driver goes on with other groups while it syncs. Everything in
// the library that rests on the Round waits too, as the library hears of the Round's end
// (Advance) only then, and is asked for nothing meanwhile. So for the library nothing
// differs from a driver that syncs before Advance.
type hold struct {
	round     uint64 // whose States have to be durable; 0: nothing waits
	messages  []heldMessage
	committed []Committed
	reads     []ReadReady
}

type heldMessage struct {
	node string
	message
}

// heldMessagesMax bounds the messages that wait. More are lost, which Raft makes up for.
const heldMessagesMax = 1024

// holds reports whether what g does next waits for a sync.
func (h *Host) holds(g *group) bool {
	return h.config.SyncLater && (g.syncDue || g.hold.round != 0)
}

// holdFor lets g wait until the States of a Round are durable.
func (h *Host) holdFor(g *group, round uint64) {
	if g.hold.round == 0 {
		h.holding = append(h.holding, g)
	}
	g.hold.round = round
}

// Synced says that the States of all Rounds up to the one with this number are durable,
// and returns the shards of the groups that waited for it. It is for Config.SyncLater, and
// has no effect without.
func (h *Host) Synced(number uint64) (shards []uint16) {
	held := h.holding
	h.holding = nil
	for _, g := range held {
		if g.hold.round > number {
			h.holding = append(h.holding, g)
			continue
		}
		h.release(g)
		shards = append(shards, g.replica.Shard)
	}
	return shards
}

// release lets go of what waited, in its order, before anything that comes later.
func (h *Host) release(g *group) {
	held := g.hold
	g.hold = hold{}
	for i := range held.messages {
		h.peer(held.messages[i].node).late.add(&held.messages[i].message, h.config.Run)
	}
	h.released = append(h.released, held.committed...)
	h.reads = append(h.reads, held.reads...)
	if g.announce && !g.logDue {
		g.announce = false
		h.prepared = append(h.prepared, g.replica.Shard)
	}
	h.advance(g)
	h.mark(g)
}

// dropHeld fails what waits for a group that ends.
func (h *Host) dropHeld(g *group, err error) {
	shard := g.replica.Shard
	of := func(c Committed) bool { return c.Shard == shard }
	for _, list := range [2][]Committed{h.released, g.hold.committed} {
		for i := range list {
			if of(list[i]) && list[i].Token != 0 {
				h.fail(g, list[i].Token, ErrFate)
			}
		}
	}
	for _, read := range g.hold.reads {
		h.fail(g, read.Token, err)
	}
	h.released = slices.DeleteFunc(h.released, of)
	h.holding = slices.DeleteFunc(h.holding, func(other *group) bool { return other == g })
	g.hold = hold{}
}
