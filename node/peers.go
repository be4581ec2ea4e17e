package node

// Peers carries envelopes to other nodes. Send must not block; what cannot be sent
// is dropped, which Raft makes up for.
type Peers interface {
	Send(to string, envelope []byte)
	// QueueBytes returns the bytes of envelopes that wait for all peers.
	QueueBytes() int64
}

// noPeers is for a node that has none.
type noPeers struct{}

func (noPeers) Send(string, []byte) {}
func (noPeers) QueueBytes() int64   { return 0 }
