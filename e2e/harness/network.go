package harness

import (
	"fmt"
	"sync"
	"time"
)

// Flow describes what becomes of the bytes that one process sends to another.
type Flow struct {
	kind  flowKind
	delay time.Duration
}

type flowKind int

const (
	flowPass flowKind = iota
	flowHold
	flowSwallow
	flowRefuse
)

// Pass lets bytes through.
func Pass() Flow { return Flow{} }

// Delay lets bytes through some time after they came.
func Delay(d time.Duration) Flow { return Flow{delay: d} }

// Hold keeps bytes back: they arrive, late, when the flow passes again, as a cable
// that is plugged in again soon enough lets a connection go on.
func Hold() Flow { return Flow{kind: flowHold} }

// Swallow drops bytes without a sign. What has lost bytes cannot go on, so such a
// connection ends when the flow passes again.
func Swallow() Flow { return Flow{kind: flowSwallow} }

// Refuse ends the connections between the two, and each new one at once.
func Refuse() Flow { return Flow{kind: flowRefuse} }

// String names the flow.
func (f Flow) String() string {
	switch f.kind {
	case flowHold:
		return "hold"
	case flowSwallow:
		return "swallow"
	case flowRefuse:
		return "refuse"
	}
	if f.delay > 0 {
		return fmt.Sprintf("delay %s", f.delay)
	}
	return "pass"
}

// Network is the connections between named processes, each through a Proxy of its
// own process. A flow goes from one name to another, no matter which of the two has
// opened the connection.
type Network struct {
	// Owner returns the name of the process with the number; "" for an unknown one.
	owners func() map[int]string
	mu     struct {
		sync.Mutex
		flows   map[[2]string]Flow
		changed chan struct{} // closed, and made anew, by each change
		conns   map[*proxied]bool
	}
}

// NewNetwork makes a network in which all bytes pass. Owners has the names of the
// processes that may open connections, by their numbers.
func NewNetwork(owners func() map[int]string) *Network {
	n := &Network{owners: owners}
	n.mu.flows = map[[2]string]Flow{}
	n.mu.changed = make(chan struct{})
	n.mu.conns = map[*proxied]bool{}
	return n
}

// Set changes the flow from one process to another.
func (n *Network) Set(from, to string, flow Flow) {
	n.change(func(flows map[[2]string]Flow) { flows[[2]string{from, to}] = flow })
}

// SetBoth changes the flows in both directions.
func (n *Network) SetBoth(a, b string, flow Flow) {
	n.change(func(flows map[[2]string]Flow) {
		flows[[2]string{a, b}], flows[[2]string{b, a}] = flow, flow
	})
}

// Heal lets all bytes pass.
func (n *Network) Heal() { n.change(func(flows map[[2]string]Flow) { clear(flows) }) }

func (n *Network) change(apply func(flows map[[2]string]Flow)) {
	n.mu.Lock()
	apply(n.mu.flows)
	close(n.mu.changed)
	n.mu.changed = make(chan struct{})
	var ended []*proxied
	for conn := range n.mu.conns {
		there, back := n.mu.flows[[2]string{conn.client, conn.server}], n.mu.flows[[2]string{conn.server, conn.client}]
		refused := there.kind == flowRefuse || back.kind == flowRefuse
		healed := conn.there.lost.Load() && there.kind != flowSwallow || conn.back.lost.Load() && back.kind != flowSwallow
		if refused || healed {
			ended = append(ended, conn)
		}
	}
	n.mu.Unlock()
	for _, conn := range ended {
		conn.reset()
	}
}

// flow returns what is to be done with bytes now, and a channel that is closed when
// that changes.
func (n *Network) flow(from, to string) (Flow, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.flows[[2]string{from, to}], n.mu.changed
}

// enter notes a connection, unless it is refused.
func (n *Network) enter(conn *proxied) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, way := range [][2]string{{conn.client, conn.server}, {conn.server, conn.client}} {
		if n.mu.flows[way].kind == flowRefuse {
			return false
		}
	}
	n.mu.conns[conn] = true
	return true
}

func (n *Network) leave(conn *proxied) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.mu.conns, conn)
}
