package replica

import (
	"slices"

	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

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
	node    string
	message envelope.Message
}

// heldMessagesMax bounds the messages that wait. More are lost, which Raft makes up for.
const heldMessagesMax = 1024

// holds reports whether what g does next waits for a sync.
func (g *group) holds() bool {
	return g.shared.config.SyncLater && (g.syncDue || g.hold.round != 0)
}

// holdFor makes g wait until the States of a Round are durable.
func (g *group) holdFor(round uint64) {
	if g.hold.round == 0 {
		g.shared.next.holding = append(g.shared.next.holding, g)
	}
	g.hold.round = round
}

// dropHeld fails what waits for a group that ends.
func (g *group) dropHeld(err error) {
	shard := g.replica.Shard
	of := func(c Committed) bool { return c.Shard == shard }
	for _, list := range [2][]Committed{g.shared.next.released, g.hold.committed} {
		for i := range list {
			if of(list[i]) && list[i].Token != 0 {
				g.fail(list[i].Token, ErrFate)
			}
		}
	}
	for _, read := range g.hold.reads {
		g.fail(read.Token, err)
	}
	g.shared.next.released = slices.DeleteFunc(g.shared.next.released, of)
	g.shared.next.holding = slices.DeleteFunc(g.shared.next.holding, func(other *group) bool { return other == g })
	g.hold = hold{}
}
