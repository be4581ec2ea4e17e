package transport

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// lookupTime bounds a lookup on a machine that is busy with other things.
const lookupTime = time.Minute

// nameServer answers every question about an address with one, or keeps silent.
func nameServer(t *testing.T, silent bool) (address string, asked *atomic.Int64) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int64)
	var running sync.WaitGroup
	t.Cleanup(func() { _ = conn.Close(); running.Wait() })
	running.Go(func() {
		question := make([]byte, answerBytesMax)
		for {
			n, from, err := conn.ReadFrom(question)
			if err != nil {
				return
			}
			asked.Add(1)
			if silent {
				continue
			}
			answer, err := answerTo(question[:n])
			if err == nil {
				_, err = conn.WriteTo(answer, from)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	return conn.LocalAddr().String(), asked
}

func answerTo(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	q := m.Questions[0]
	if q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 5},
			Body:   &dnsmessage.AResource{A: [4]byte{192, 0, 2, 7}},
		}}
	}
	return m.Pack()
}

// sockets dials name servers in turn, and counts what is open.
type sockets struct {
	open atomic.Int64
	next func() string // address
}

type socket struct {
	*net.UDPConn
	close func()
}

func (s *socket) Close() error {
	s.close()
	return s.UDPConn.Close()
}

func (s *sockets) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, s.next())
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return &socket{conn.(*net.UDPConn), sync.OnceFunc(func() { s.open.Add(-1) })}, nil
}

func lookup(t *testing.T, s *sockets) ([]string, error) {
	t.Helper()
	r := newResolver(s.dial)
	r.PreferGo = true
	ctx, cancel := context.WithTimeout(t.Context(), lookupTime)
	defer cancel()
	found, err := r.LookupHost(ctx, "node.example.com.")
	if open := s.open.Load(); open != 0 {
		t.Errorf("%d sockets are left open", open)
	}
	return found, err
}

// Most of the sockets lead to a name server that is lost: the others are enough.
func TestResolverAsksAgain(t *testing.T) {
	lost, askedLost := nameServer(t, true)
	alive, _ := nameServer(t, false)
	var dialled atomic.Int64
	s := &sockets{next: func() string {
		if dialled.Add(1)%3 == 0 {
			return alive
		}
		return lost
	}}
	found, err := lookup(t, s)
	if err != nil || !slices.Equal(found, []string{"192.0.2.7"}) {
		t.Errorf("%v, %v", found, err)
	}
	// Two questions, for addresses of both families, and no more than it takes.
	if n, on := dialled.Load(), askedLost.Load(); n < 3 || n > 2*asksMax || on < 2 {
		t.Errorf("%d sockets, %d questions to the lost one", n, on)
	}
}

// A name server that answers at once is asked once for each family of addresses.
func TestResolverAsksOnce(t *testing.T) {
	alive, asked := nameServer(t, false)
	found, err := lookup(t, &sockets{next: func() string { return alive }})
	if err != nil || !slices.Equal(found, []string{"192.0.2.7"}) {
		t.Errorf("%v, %v", found, err)
	}
	if asked.Load() < 2 { // more on a machine that is busy
		t.Errorf("%d questions", asked.Load())
	}
}

// Where nobody listens that is said without waiting, and a lookup that is given up leaves
// nothing behind.
func TestResolverFails(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := conn.LocalAddr().String()
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	s := &sockets{next: func() string { return address }}
	var problem *net.DNSError
	if _, err := lookup(t, s); !errors.As(err, &problem) || problem.IsTimeout {
		t.Errorf("nobody listens: %v", err)
	}

	lost, _ := nameServer(t, true)
	s = &sockets{next: func() string { return lost }}
	ctx, cancel := context.WithTimeout(t.Context(), 3*askAgainAfter)
	defer cancel()
	r := newResolver(s.dial)
	r.PreferGo = true
	if _, err := r.LookupHost(ctx, "node.example.com."); !errors.As(err, &problem) {
		t.Errorf("given up: %v", err)
	}
	for deadline := time.Now().Add(lookupTime); s.open.Load() != 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	if open := s.open.Load(); open != 0 {
		t.Errorf("%d sockets are left open", open)
	}
}

// A connection as the resolver uses it keeps to its deadline, and can be closed while
// somebody reads.
func TestAskerEnds(t *testing.T) {
	lost, _ := nameServer(t, true)
	s := &sockets{next: func() string { return lost }}
	dial := func() net.Conn {
		conn, err := newResolver(s.dial).Dial(t.Context(), "udp", lost)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("question")); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	conn := dial()
	if err := conn.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 10)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("after the deadline: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	conn = dial()
	read := make(chan error)
	go func() {
		_, err := conn.Read(make([]byte, 10))
		read <- err
	}()
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if conn.LocalAddr() == nil || conn.RemoteAddr().String() != lost {
		t.Errorf("%v to %v", conn.LocalAddr(), conn.RemoteAddr())
	}
}
