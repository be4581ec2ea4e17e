package rpc

import (
	"cmp"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/handshake"
)

// PeersOptions say how Peers talk. Self is needed; zero values of the others mean the
// defaults.
type PeersOptions struct {
	Self func() handshake.Hello
	// Credentials are for connections to nodes, whose certificates Names checks; nil: no TLS.
	Credentials credentials.TransportCredentials
	Names       handshake.Names
	// Up and Down are called when a peer has let this node in, and when that stream is
	// lost, in turns for each peer, from its goroutine. They must not block for long.
	Up, Down func(node string)
	// Clock is told to the others when a stream begins, and once in a while.
	Clock func() time.Time

	QueueBytesMax     int                 // of envelopes that wait for a peer; 8 MiB
	DownQueueBytesMax int                 // while it is down; 64 KiB
	OutboxBytesMax    int64               // of envelopes that wait for all peers; 0: no bound
	AdmitTimeout      time.Duration       // for the peer to let this node in, at first; 5 s
	Backoff           backoff.Exponential // zero: the default
	Logger            *slog.Logger
}

func (o PeersOptions) withDefaults() PeersOptions {
	if o.Up == nil {
		o.Up = func(string) {}
	}
	if o.Down == nil {
		o.Down = func(string) {}
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.QueueBytesMax == 0 {
		o.QueueBytesMax = 8 << 20
	}
	if o.OutboxBytesMax == 0 {
		o.OutboxBytesMax = math.MaxInt64
	}
	if o.DownQueueBytesMax == 0 {
		o.DownQueueBytesMax = 64 << 10
	}
	if o.AdmitTimeout == 0 {
		o.AdmitTimeout = 5 * time.Second
	}
	o.Backoff = cmp.Or(o.Backoff, backoffDefault())
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Target is a node to send to.
type Target struct {
	Node        string
	Incarnation string
	Address     string // host and port
}

// PeerStats tell of one peer. Counters grow from the start of Peers on, as long as
// its Target stays.
type PeerStats struct {
	Target
	Up               bool
	QueueBytes       int
	SentEnvelopes    uint64
	SentBytes        uint64
	DroppedEnvelopes uint64
	Streams          uint64 // that were let in
	LastError        string // of the last stream; empty: none yet
}

// Peers send envelopes to other nodes, on one stream each. It is safe for concurrent
// use.
type Peers struct {
	options PeersOptions
	waiting atomic.Int64 // bytes of envelopes that wait for all peers
	mu      struct {
		sync.RWMutex
		peers  map[string]*peer
		closed bool
	}
}

// NewPeers returns Peers without targets.
func NewPeers(o PeersOptions) *Peers {
	p := &Peers{options: o.withDefaults()}
	p.mu.peers = map[string]*peer{}
	return p
}

// QueueBytes returns the bytes of envelopes that wait for all peers.
func (p *Peers) QueueBytes() int64 { return p.waiting.Load() }

// Set replaces the targets: connections to those that are new are made, to those
// that are gone, or have another address or data folder, are given up. It waits
// until these have ended. Errors: of addresses that gRPC cannot use; the other
// targets are set all the same.
func (p *Peers) Set(targets []Target) error {
	gone, err := p.set(targets)
	for _, g := range gone {
		g.close()
	}
	return err
}

func (p *Peers) set(targets []Target) (gone []*peer, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, nil
	}
	keep := make(map[string]*peer, len(targets))
	for _, t := range targets {
		old := p.mu.peers[t.Node]
		if old != nil && old.target == t {
			keep[t.Node] = old
			continue
		}
		started, startErr := startPeer(t, &p.options, &p.waiting)
		if startErr != nil {
			err = errors.Join(err, startErr)
			continue
		}
		keep[t.Node] = started
	}
	for node, old := range p.mu.peers {
		if keep[node] != old {
			gone = append(gone, old)
		}
	}
	p.mu.peers = keep
	return gone, err
}

// Send queues an envelope for a node and never blocks. It owns the envelope from now
// on. One for a node that is no target, or for which there is no room, is dropped:
// Raft repairs what is lost.
func (p *Peers) Send(node string, envelope []byte) {
	p.mu.RLock()
	to := p.mu.peers[node]
	p.mu.RUnlock()
	if to != nil {
		to.push(envelope)
	}
}

// Conn returns the connection to a node for single calls; nil: it is no target. Large
// answers, such as exports, should have a connection of their own.
func (p *Peers) Conn(node string) grpc.ClientConnInterface {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if to := p.mu.peers[node]; to != nil {
		return to.conn
	}
	return nil
}

// Stats tell of all peers, in no order.
func (p *Peers) Stats() []PeerStats {
	p.mu.RLock()
	defer p.mu.RUnlock()
	stats := make([]PeerStats, 0, len(p.mu.peers))
	for _, to := range p.mu.peers {
		stats = append(stats, to.stats())
	}
	return stats
}

// Close closes all connections and waits until they have ended.
func (p *Peers) Close() {
	p.mu.Lock()
	peers := p.mu.peers
	p.mu.peers, p.mu.closed = map[string]*peer{}, true
	p.mu.Unlock()
	for _, to := range peers {
		to.close()
	}
}

// backoffDefault is how long a lost stream or download waits for its next attempt.
func backoffDefault() backoff.Exponential {
	return backoff.Exponential{Min: 50 * time.Millisecond, Max: time.Second}
}
