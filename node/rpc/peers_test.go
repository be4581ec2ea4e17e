package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/wire"
)

// inbox keeps what a node receives.
type inbox struct {
	mu       sync.Mutex
	received []string
}

func (i *inbox) receive(from string, envelopes [][]byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, e := range envelopes {
		i.received = append(i.received, from+":"+string(e))
	}
	return nil
}

func (i *inbox) has(want string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Contains(i.received, want)
}

func (i *inbox) snapshot() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.received)
}

// events count a peer's ups and downs, and check that they alternate.
type events struct {
	t         testing.TB
	up        atomic.Bool
	ups, down atomic.Int64
}

func (e *events) onUp(string) {
	if e.up.Swap(true) {
		e.t.Error("up twice")
	}
	e.ups.Add(1)
}

func (e *events) onDown(string) {
	if !e.up.Swap(false) {
		e.t.Error("down without up")
	}
	e.down.Add(1)
}

func peersOf(t testing.TB, self handshake.Hello, o PeersOptions, targets ...Target) (*Peers, *events) {
	t.Helper()
	e := &events{t: t}
	o.Self = func() handshake.Hello { return self }
	o.Up, o.Down = e.onUp, e.onDown
	o.Backoff = backoff.Exponential{Min: time.Millisecond, Max: 20 * time.Millisecond}
	p := NewPeers(o)
	t.Cleanup(p.Close)
	if err := p.Set(targets); err != nil {
		t.Fatal(err)
	}
	return p, e
}

func targetOf(node *fakeNode, address string) Target {
	return Target{Node: node.hello.Node, Incarnation: node.hello.Incarnation, Address: address}
}

func TestPeersKeepOrder(t *testing.T) {
	var in inbox
	node := &fakeNode{hello: nodeHello("b"), receive: in.receive}
	address, _ := serve(t, node, Options{})
	peers, e := peersOf(t, nodeHello("a"), PeersOptions{}, targetOf(node, address))
	const count = 20_000
	var want []string
	eventually(t, "up", e.up.Load)
	for i := range count {
		peers.Send("b", fmt.Append(nil, i))
		want = append(want, fmt.Sprintf("a:%d", i))
	}
	peers.Send("nobody", []byte("x"))
	eventually(t, "the last envelope", func() bool { return in.has(want[count-1]) })
	if got := in.snapshot(); !slices.Equal(got, want) {
		t.Fatalf("%d envelopes came, not as they were sent", len(got))
	}
	stats := peers.Stats()[0]
	if !stats.Up || stats.SentEnvelopes != count || stats.DroppedEnvelopes != 0 || stats.Streams != 1 || stats.QueueBytes != 0 {
		t.Fatalf("stats: %+v", stats)
	}
}

func TestPeersReconnect(t *testing.T) {
	var in inbox
	node := &fakeNode{hello: nodeHello("b"), receive: in.receive}
	// Nobody else takes a port on this host of the loopback while the node is down.
	listener, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	stop := serveOn(t, listener, node, Options{})
	peers, e := peersOf(t, nodeHello("a"), PeersOptions{}, targetOf(node, address))
	for round := range 3 {
		text := fmt.Sprint("round ", round)
		eventually(t, "up", e.up.Load)
		peers.Send("b", []byte(text))
		eventually(t, text, func() bool { return in.has("a:" + text) })
		stop()
		eventually(t, "down", func() bool { return !e.up.Load() })
		peers.Send("b", []byte("while down"))
		if listener, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
		stop = serveOn(t, listener, node, Options{})
	}
	eventually(t, "what was sent while the peer was down", func() bool { return in.has("a:while down") })
	eventually(t, "up", e.up.Load)
	if s := peers.Stats()[0]; s.Streams != 4 || !strings.Contains(s.LastError, "unavailable") && s.LastError == "" {
		t.Fatalf("stats: %+v", s)
	}
	peers.Close()
	if e.up.Load() || e.ups.Load() != e.down.Load() {
		t.Fatalf("%d ups, %d downs", e.ups.Load(), e.down.Load())
	}
	peers.Send("b", []byte("after the end"))
}

// TestPeersThatMustForget: a peer that was let in before this node's folder might have forgotten series gets no envelope from
// then on unless it understands that.
func TestPeersThatMustForget(t *testing.T) {
	for _, understands := range []handshake.Knowledge{handshake.Unknown, handshake.Understood} {
		var in inbox
		node := &fakeNode{hello: nodeHello("b"), receive: in.receive}
		node.hello.Forgets = understands
		address, _ := serve(t, node, Options{})
		var kept atomic.Bool
		e := &events{t: t}
		peers := NewPeers(PeersOptions{
			Self: func() handshake.Hello {
				h := nodeHello("a")
				if h.Forgets = handshake.Understood; kept.Load() {
					h.Forgets = handshake.Kept
				}
				return h
			},
			Up: e.onUp, Down: e.onDown, Backoff: backoff.Exponential{Min: time.Millisecond, Max: 20 * time.Millisecond},
		})
		t.Cleanup(peers.Close)
		if err := peers.Set([]Target{targetOf(node, address)}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "up", e.up.Load)
		peers.Send("b", []byte("before"))
		eventually(t, "the first envelope", func() bool { return in.has("a:before") })
		kept.Store(true)
		peers.Send("b", []byte("after"))
		if understands == handshake.Unknown {
			eventually(t, "a refusal", func() bool { return strings.Contains(peers.Stats()[0].LastError, "does not understand") })
		} else {
			eventually(t, "the second envelope", func() bool { return in.has("a:after") })
		}
		if streams := peers.Stats()[0].Streams; in.has("a:after") != (understands > 0) || streams != uint64(1+understands) {
			t.Fatalf("%d streams, %q came", streams, in.snapshot())
		}
	}
}

// TestPeersSkipForeignFolder: a node that comes back with another data folder gets
// nothing that was meant for the one before.
func TestPeersSkipForeignFolder(t *testing.T) {
	var in inbox
	node := &fakeNode{hello: nodeHello("b"), receive: in.receive}
	address, _ := serve(t, node, Options{})
	target := targetOf(node, address)
	target.Incarnation = identity("9")
	peers, e := peersOf(t, nodeHello("a"), PeersOptions{}, target)
	peers.Send("b", []byte("secret"))
	eventually(t, "refusal", func() bool { return strings.Contains(peers.Stats()[0].LastError, identity("9")) })
	if err := peers.Set([]Target{targetOf(node, address)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "up", e.up.Load)
	peers.Send("b", []byte("hello"))
	eventually(t, "hello", func() bool { return in.has("a:hello") })
	if in.has("a:secret") {
		t.Fatal("the foreign folder got an envelope")
	}
}

// TestPeersStalled: a peer that does not read costs bounded memory, the newest
// envelopes stay, and others are not held up.
func TestPeersStalled(t *testing.T) {
	release, stalled := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var last atomic.Uint64
	slow := &fakeNode{hello: nodeHello("b"), receive: func(_ string, envelopes [][]byte) error {
		once.Do(func() { close(stalled) })
		<-release
		for _, e := range envelopes {
			n := binary.BigEndian.Uint64(e)
			if n <= last.Load() {
				t.Errorf("envelope %d after %d", n, last.Load())
			}
			last.Store(n)
		}
		return nil
	}}
	var in inbox
	quick := &fakeNode{hello: nodeHello("d"), receive: in.receive}
	slowAddress, _ := serve(t, slow, Options{})
	quickAddress, _ := serve(t, quick, Options{})
	const bound = 1 << 20
	self := nodeHello("a")
	peers, e := peersOf(t, self, PeersOptions{QueueBytesMax: bound}, targetOf(slow, slowAddress))
	eventually(t, "up", e.up.Load)
	others, _ := peersOf(t, self, PeersOptions{}, targetOf(quick, quickAddress))
	var sent uint64
	send := func() {
		sent++
		envelope := make([]byte, 3200)
		binary.BigEndian.PutUint64(envelope, sent)
		peers.Send("b", envelope)
	}
	send()
	<-stalled
	eventually(t, "a full queue", func() bool {
		for range 1000 {
			send()
		}
		s := peers.Stats()[0]
		if s.QueueBytes > bound {
			t.Fatalf("the queue has %d bytes", s.QueueBytes)
		}
		return s.DroppedEnvelopes > 1000
	})
	others.Send("d", []byte("quick"))
	eventually(t, "the quick one", func() bool { return in.has("a:quick") })
	close(release)
	eventually(t, "the newest envelope", func() bool { return last.Load() == sent })
	s := peers.Stats()[0]
	if s.SentEnvelopes+s.DroppedEnvelopes != sent {
		t.Fatalf("%d sent and %d dropped are not %d", s.SentEnvelopes, s.DroppedEnvelopes, sent)
	}
}

// TestPeersTwin: while a node's process is heard, another one with its id is not let
// in; when it has been silent, it is.
func TestPeersTwin(t *testing.T) {
	var in inbox
	var now atomic.Int64
	node := &fakeNode{hello: nodeHello("b"), receive: in.receive}
	address, _ := serve(t, node, Options{Now: func() time.Time { return time.Unix(0, now.Load()) }})
	first, firstEvents := peersOf(t, nodeHello("a"), PeersOptions{}, targetOf(node, address))
	eventually(t, "up", firstEvents.up.Load)
	second, secondEvents := peersOf(t, nodeHello("a"), PeersOptions{}, targetOf(node, address))
	eventually(t, "refusal", func() bool {
		return strings.Contains(second.Stats()[0].LastError, wire.ErrTwin.Error())
	})
	first.Send("b", []byte("one"))
	eventually(t, "one", func() bool { return in.has("a:one") })
	if s := second.Stats()[0]; s.Streams != 0 || secondEvents.ups.Load() != 0 {
		t.Fatalf("a refused stream counts as up: %+v", s)
	}
	now.Add(int64(twinIdle))
	eventually(t, "up", secondEvents.up.Load)
	// The superseded stream ends at its next envelope, which is not taken.
	first.Send("b", []byte("zombie"))
	eventually(t, "down", func() bool { return firstEvents.down.Load() > 0 })
	if in.has("a:zombie") {
		t.Fatal("a zombie's envelope was taken")
	}
	second.Send("b", []byte("two"))
	eventually(t, "two", func() bool { return in.has("a:two") })
}

// TestPeersGarbage: an envelope that the node cannot read ends the stream, and says
// so at the sender.
func TestPeersGarbage(t *testing.T) {
	node := &fakeNode{hello: nodeHello("b"), receive: func(string, [][]byte) error {
		return fmt.Errorf("%w: magic", wire.ErrInvalid)
	}}
	address, _ := serve(t, node, Options{})
	peers, e := peersOf(t, nodeHello("a"), PeersOptions{}, targetOf(node, address))
	eventually(t, "up", e.up.Load)
	peers.Send("b", []byte("garbage"))
	eventually(t, "the reason", func() bool { return strings.Contains(peers.Stats()[0].LastError, "magic") })
	eventually(t, "up again", func() bool { return e.ups.Load() > 1 })
}

func TestPeersAdmitTimeout(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	peers, e := peersOf(t, nodeHello("a"), PeersOptions{AdmitTimeout: 20 * time.Millisecond},
		Target{Node: "b", Incarnation: identity("b"), Address: listener.Addr().String()})
	eventually(t, "the reason", func() bool { return strings.Contains(peers.Stats()[0].LastError, "did not answer") })
	if e.ups.Load() != 0 {
		t.Fatal("up")
	}
	if conn := peers.Conn("b"); conn == nil || peers.Conn("x") != nil {
		t.Fatal("connections")
	}
	if err := peers.Set(nil); err != nil || errors.Is(err, wire.ErrTwin) {
		t.Fatal(err)
	}
	if len(peers.Stats()) != 0 {
		t.Fatal("a target is left")
	}
}

// An envelope for a node that is given up at this moment does not count as waiting from then on.
func TestPeersClosedTakesNothing(t *testing.T) {
	node := &fakeNode{hello: nodeHello("b")}
	peers, _ := peersOf(t, nodeHello("a"), PeersOptions{}, targetOf(node, "127.0.0.1:1"))
	peers.mu.RLock()
	to := peers.mu.peers["b"] // as Send does
	peers.mu.RUnlock()
	if err := peers.Set(nil); err != nil {
		t.Fatal(err)
	}
	to.push([]byte("too late"))
	if waits := peers.QueueBytes(); waits != 0 {
		t.Fatalf("%d bytes wait for nobody", waits)
	}
}

// TestPeersBadAddress: an address that cannot be used keeps no other node out.
func TestPeersBadAddress(t *testing.T) {
	var in inbox
	node := &fakeNode{hello: nodeHello("b"), receive: in.receive}
	address, _ := serve(t, node, Options{})
	peers, e := peersOf(t, nodeHello("a"), PeersOptions{}, targetOf(node, address))
	eventually(t, "up", e.up.Load)
	if err := peers.Set([]Target{{Node: "x", Incarnation: identity("1"), Address: "bad\x00%zz"}, targetOf(node, address)}); err != nil {
		t.Log(err) // gRPC may also find out later
	}
	peers.Send("b", []byte("still here"))
	eventually(t, "the envelope", func() bool { return in.has("a:still here") })
	for _, s := range peers.Stats() {
		if s.Node == "b" && s.Streams != 1 {
			t.Fatalf("the stream was lost: %+v", s)
		}
	}
}

// A peer that lets others in, but later than they wait at first, gets its stream all the
// same: the time grows with each attempt that was given up.
func TestPeersSlowAdmission(t *testing.T) {
	const first = 20 * time.Millisecond
	var asked atomic.Int64
	node := &fakeNode{hello: nodeHello("b"), admit: func(handshake.Hello) error {
		asked.Add(1)
		time.Sleep(3 * first)
		return nil
	}}
	address, _ := serve(t, node, Options{})
	_, e := peersOf(t, nodeHello("a"), PeersOptions{AdmitTimeout: first}, targetOf(node, address))
	eventually(t, "up", e.up.Load)
	if asked.Load() < 2 {
		t.Errorf("it was let in by attempt %d: it was not slow", asked.Load())
	}
}
