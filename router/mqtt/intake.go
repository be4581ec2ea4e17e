package mqtt

import (
	"sync"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/tickmesh/tickmesh/api/budget"
)

// messageBytes is what a message takes beside its payload and topic.
const messageBytes = 512

// intake takes what one connection brings. Its methods do not block, as pings would wait for them.
//
// Where there is no room for a message with QoS 1, the connection takes nothing more. It ends once what it has brought is
// written and acknowledged, so that each connection gets somewhere, and the broker sends the rest again at the next.
type intake struct {
	*client
	lease   budget.Lease
	queue   chan *message
	drained chan struct{} // closed when nothing is taken any more, and what was taken is done with

	mu struct {
		sync.Mutex
		pending int  // messages that are not done with
		full    bool // nothing is taken any more
	}
}

// received is paho's callback.
func (i *intake) received(p paho.PublishReceived) (bool, error) {
	packet := p.Packet
	m := &message{topic: packet.Topic, payload: packet.Payload, retained: packet.Retain, received: time.Now()}
	m.held = int64(len(m.topic) + len(m.payload) + messageBytes)
	if packet.QoS > 0 {
		m.ack = func() { _ = p.Client.Ack(packet) } // where the connection is gone, the broker sends it again
	}
	if i.take(m) || packet.QoS > 0 {
		return true, nil
	}
	i.counts.dropped.Add(1)
	i.drops.Warn("MQTT: a message with QoS 0 was dropped, as there was no room: publish and subscribe with QoS 1, with which the broker waits", "connection", i.connection.name, "topic", cut(m.topic))
	return true, nil
}

// take queues a message, and reports whether it did. Those with QoS 0 leave room to others.
func (i *intake) take(m *message) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	loose := m.ack == nil
	if i.mu.full || loose && len(i.queue) >= i.connection.inFlight {
		return false
	}
	if i.lease.Charge(m.held) {
		select {
		case i.queue <- m:
			i.mu.pending++
			i.counts.inFlight.Add(1)
			return true
		default:
			i.lease.Release(m.held)
		}
	}
	if i.mu.full = !loose; i.mu.full && i.mu.pending == 0 {
		close(i.drained)
	}
	return false
}

// done returns what a message holds.
func (i *intake) done(m *message) {
	i.lease.Release(m.held)
	i.counts.inFlight.Add(-1)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mu.pending--; i.mu.full && i.mu.pending == 0 {
		close(i.drained)
	}
}
