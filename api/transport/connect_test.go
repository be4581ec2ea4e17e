package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// slowServer passes connections on to a server, whose every first answer it holds back
// for a while: a process that gets little of its machine.
type slowServer struct {
	listener net.Listener
	server   string
	delay    time.Duration
	ended    chan struct{} // closed when no delay is waited for any more
	accepted atomic.Int32
	running  sync.WaitGroup
}

func newSlowServer(t *testing.T, server string, delay time.Duration) *slowServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &slowServer{listener: listener, server: server, delay: delay, ended: make(chan struct{})}
	s.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.accepted.Add(1)
			s.running.Go(func() { s.pass(conn) })
		}
	})
	t.Cleanup(func() {
		close(s.ended)
		_ = listener.Close()
		s.running.Wait()
	})
	return s
}

// pass hands on both ways of a connection until either side ends it.
func (s *slowServer) pass(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", s.server)
	if err != nil {
		return
	}
	defer to.Close()
	var there sync.WaitGroup
	there.Go(func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	})
	select {
	case <-time.After(s.delay):
	case <-s.ended:
	}
	_, _ = io.Copy(from, to)
	_ = from.Close()
	there.Wait()
}

// askSlowly calls the server until it answers or ctx ends, as links do.
func askSlowly(ctx context.Context, t *testing.T, address string, c credentials.TransportCredentials, times connectTimes) error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, dialOptions(c, times)...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true))
	return err
}

// A peer whose handshake takes longer than the first attempts allow is reached all the
// same, with TLS and without, and its connection stays.
func TestSlowHandshake(t *testing.T) {
	authority := newAuthority(t, "cluster")
	serverSide, clientSide := newSide(t), newSide(t)
	serverSide.set(t, authority, 10, authority)
	clientSide.set(t, authority, 20, authority)
	var c clock
	listening, err := open(t, serverSide.Files, &c, io.Discard).ServerCredentials()
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string]struct {
		server, client credentials.TransportCredentials
	}{
		"plain": {nil, nil},
		"TLS":   {listening, open(t, clientSide.Files, &c, io.Discard).Credentials()},
	} {
		t.Run(name, func(t *testing.T) {
			address, stop := serveHealth(t, pair.server)
			defer stop()
			const first = 50 * time.Millisecond
			slow := newSlowServer(t, address, 4*first)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			times := connectTimes{dial: time.Minute, handshakeMin: first, handshakeMax: time.Minute}
			if err := askSlowly(ctx, t, slow.listener.Addr().String(), pair.client, times); err != nil {
				t.Fatalf("after %d attempts: %v", slow.accepted.Load(), err)
			}
			if n := slow.accepted.Load(); n < 2 {
				t.Errorf("%d attempts: the handshake was not slow", n)
			}
			// With a time that does not adapt, every attempt is thrown away. This peer answers so
			// late that no busy machine takes its handshake for one in time.
			slow = newSlowServer(t, address, time.Minute)
			ctx, cancel = context.WithCancel(t.Context())
			go func() {
				for slow.accepted.Load() < 5 && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
			times.handshakeMax = first
			if askSlowly(ctx, t, slow.listener.Addr().String(), pair.client, times) == nil {
				t.Error("it was reached within a time that is too short")
			}
			cancel()
		})
	}
}

// What is learnt of a peer is kept for its address alone, and a peer that answers at once
// is not waited for longer.
func TestHandshakeByAddress(t *testing.T) {
	times := defaultConnectTimes()
	g := newAdaptiveHandshake(insecure.NewCredentials(), &times)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	raw, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	key := raw.RemoteAddr().String()
	g.allowed.For(key).Expired(times.handshakeMax)
	if other := g.allowed.For("127.0.0.1:1").Allowed(); other != times.handshakeMin {
		t.Errorf("another address is allowed %v", other)
	}
	conn, _, err := g.ClientHandshake(t.Context(), "", raw)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := server.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if now := g.allowed.For(key).Allowed(); now >= times.handshakeMax {
		t.Errorf("%v is allowed after a quick handshake", now)
	}
}

// Of several attempts to connect the first that succeeds counts: not that which leads to a machine that is gone.
func TestHedgedDial(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var attempts atomic.Int32
	d := &hedgedDialer{every: time.Millisecond, dialer: net.Dialer{Timeout: time.Minute, ControlContext: func(ctx context.Context, _, _ string, _ syscall.RawConn) error {
		if attempts.Add(1) <= 2 {
			<-ctx.Done() // nobody answers
			return ctx.Err()
		}
		return nil
	}}}
	conn, err := d.dial(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	nobody := func(ctx context.Context, _, _ string, _ syscall.RawConn) error {
		<-ctx.Done()
		return ctx.Err()
	}
	d = &hedgedDialer{every: time.Millisecond, dialer: net.Dialer{Timeout: time.Minute, ControlContext: nobody}}
	ended, end := context.WithCancel(t.Context())
	end()
	if conn, err := d.dial(ended, listener.Addr().String()); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v: it was given up", conn, err)
	}
	d = &hedgedDialer{every: time.Millisecond, dialer: net.Dialer{Timeout: 5 * time.Millisecond, ControlContext: nobody}}
	if conn, err := d.dial(t.Context(), listener.Addr().String()); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), listener.Addr().String()) {
		t.Fatalf("%v, %v: nobody answered", conn, err)
	}
	d = &hedgedDialer{every: time.Millisecond, dialer: net.Dialer{Timeout: time.Minute}}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.dial(t.Context(), address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("%v: it is refused", err)
	}
}

// Of a connection that is idle more than one probe has to be lost: Linux looks at the first one after unacknowledged, and
// begins to wait up to an eighth of a second late.
func TestProbesOfIdleConnections(t *testing.T) {
	times := clientConnectTimes()
	if least := times.keepAlive.Idle + times.keepAlive.Interval + time.Second/8; times.unacknowledged < least {
		t.Errorf("%v, less than %v", times.unacknowledged, least)
	}
}
