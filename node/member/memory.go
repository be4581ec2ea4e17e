package member

import (
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/node/rpc"
)

// ScansMax is what the scans of a node can use of its memory. More comes of queries only that want far more samples
// at a step than people do.
const ScansMax = 512 << 20

// rpcOptions returns the bounds of what callers hold: half of the share of messages is for
// writes, and a quarter each for what keeps the cluster together and for all else.
func (m *Member) rpcOptions() rpc.Options {
	const (
		poolMax   = 2 * transport.MessageBytesMax
		callParts = 7 // of which writes have 1, control has 2, requests have 4
		callsMin  = 16
	)
	messages := m.options.Memory.NodeBound(memory.Messages, 4*poolMax)
	scans := m.options.Memory.NodeBound(memory.Scans, ScansMax)
	calls := m.options.Memory.NodeBound(memory.Calls, memory.Unlimited) / transport.ServerStreamWindowBytes / callParts
	of := func(part, most int64) int { return int(min(max(min(calls, most)*part, callsMin), most)) }
	return rpc.Options{
		WriteBytesMax: min(messages/2, poolMax), ControlBytesMax: min(messages/4, poolMax), RequestBytesMax: min(messages/4, poolMax),
		ScanBytesMax:  scans,
		WriteCallsMax: of(1, 256), ControlCallsMax: of(2, 512), RequestCallsMax: of(4, 1024),
	}
}
