package member

import (
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/node/rpc"
)

// rpcOptions returns the bounds of what callers hold: half of the share of messages is for
// writes, and a quarter each for what keeps the cluster together and for all else.
func (m *Member) rpcOptions() rpc.Options {
	const (
		poolMax   = 2 * transport.MessageBytesMax
		callParts = 7 // of which writes have 1, control has 2, requests have 4
		callsMin  = 16
	)
	messages := m.options.Memory.NodeBound(memory.Messages, 4*poolMax)
	calls := m.options.Memory.NodeBound(memory.Calls, memory.Unlimited) / transport.ServerStreamWindowBytes / callParts
	of := func(part, most int64) int { return int(min(max(min(calls, most)*part, callsMin), most)) }
	return rpc.Options{
		WriteBytesMax: min(messages/2, poolMax), ControlBytesMax: min(messages/4, poolMax), RequestBytesMax: min(messages/4, poolMax),
		WriteCallsMax: of(1, 256), ControlCallsMax: of(2, 512), RequestCallsMax: of(4, 1024),
	}
}
