package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/deadline"
)

// connectTimes bound the phases of making a connection.
type connectTimes struct {
	// dial is for the name and for TCP. The kernel of a machine that is there answers
	// however busy its processes are, so it needs no adapting, and a machine that is gone
	// costs no more than this.
	dial time.Duration
	// another is after how long another attempt to connect begins while the ones before go on; 0: never.
	another time.Duration
	// unacknowledged is how long the kernel of the peer may leave bytes without an acknowledgement.
	unacknowledged time.Duration
	// keepAlive asks the kernel of a peer from which nothing comes, so that an answer is not waited for that
	// nobody makes any more. Zero: as Go does.
	keepAlive net.KeepAliveConfig
	// handshakeMin and handshakeMax bound what the process of the peer is allowed for the rest: the
	// TLS handshake and the first frame of HTTP/2. How long that takes depends on the load
	// of both machines. An attempt that is given up is work of both sides thrown away, and
	// made again at once, so the time adapts.
	handshakeMin, handshakeMax time.Duration
}

// defaultConnectTimes returns those of DialOptions.
func defaultConnectTimes() connectTimes {
	return connectTimes{
		dial: 2 * time.Second, unacknowledged: unacknowledgedTimeout, handshakeMin: 2 * time.Second, handshakeMax: 20 * time.Second,
	}
}

// clientConnectTimes returns those of ClientDialOptions. Where a Service leads half of the connections to a machine
// that is gone, one in sixteen attempts to connect fails all the same.
func clientConnectTimes() connectTimes {
	t := defaultConnectTimes()
	t.another = t.dial / 4
	// Linux ends an idle connection by unacknowledged, too, at the first probe after it. It is longer than both waits for
	// probes, so that one packet that is lost ends nothing.
	t.unacknowledged = 2200 * time.Millisecond
	t.keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2}
	return t
}

// hedgedDialer connects by one or more attempts, of which the first that succeeds counts.
type hedgedDialer struct {
	dialer net.Dialer    // with a Timeout, which bounds all attempts together
	every  time.Duration // between the beginnings of attempts; 0: there is one
}

// attempt is how one attempt ended.
type attempt struct {
	conn net.Conn
	err  error
}

// dial connects. The first attempt that ends, be it with an error, ends it.
func (d *hedgedDialer) dial(ctx context.Context, address string) (net.Conn, error) {
	if d.every <= 0 {
		return d.dialer.DialContext(ctx, "tcp", address)
	}
	ctx, cancel := context.WithTimeout(ctx, d.dialer.Timeout)
	defer cancel() // of those that are not needed
	ended := make(chan attempt)
	begin := func() {
		conn, err := d.dialer.DialContext(ctx, "tcp", address)
		select {
		case ended <- attempt{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close() // another was faster
			}
		}
	}
	go begin()
	another := time.NewTicker(d.every)
	defer another.Stop()
	for {
		select {
		case <-another.C:
			go begin()
		case a := <-ended:
			return a.conn, a.err
		case <-ctx.Done():
			return nil, fmt.Errorf("dial tcp %s: %w", address, ctx.Err())
		}
	}
}

// total returns a time within which each attempt ends by itself. gRPC's own bound must not
// come first: it has no phases.
func (t *connectTimes) total() time.Duration { return t.dial + 2*t.handshakeMax }

// peersMax bounds the addresses whose times are kept.
const peersMax = 1024

// adaptiveHandshake is the credentials of a client that wait for the handshake of each peer as long
// as that peer's last handshakes suggest.
type adaptiveHandshake struct {
	credentials.TransportCredentials
	allowed        *deadline.Set // by address
	unacknowledged time.Duration
}

func newAdaptiveHandshake(c credentials.TransportCredentials, t *connectTimes) *adaptiveHandshake {
	return &adaptiveHandshake{c, deadline.NewSet(t.handshakeMin, t.handshakeMax, peersMax), t.unacknowledged}
}

// ClientHandshake performs the handshake, and hands on a connection on which the first
// frame of the peer has to come within the same time. Errors: os.ErrDeadlineExceeded when
// the peer took longer, and those of the handshake.
func (g *adaptiveHandshake) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if err := boundUnacknowledged(raw, g.unacknowledged); err != nil {
		return nil, nil, err
	}
	allowed := g.allowed.For(raw.RemoteAddr().String())
	limit, start := allowed.Allowed(), time.Now()
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, info, err := g.TransportCredentials.ClientHandshake(bounded, authority, raw)
	if err != nil {
		if ctx.Err() == nil && bounded.Err() != nil {
			err = expired(allowed, limit, "the TLS handshake")
		}
		return nil, nil, err
	}
	if err := conn.SetReadDeadline(start.Add(limit)); err != nil {
		_ = conn.Close() // of no use
		return nil, nil, err
	}
	return &greetedConn{Conn: conn, allowed: allowed, limit: limit, start: start}, info, nil
}

// Clone returns a copy that shares what is known of peers.
func (g *adaptiveHandshake) Clone() credentials.TransportCredentials {
	return &adaptiveHandshake{g.TransportCredentials.Clone(), g.allowed, g.unacknowledged}
}

// expired records an attempt that ran out of its time, and returns its error.
func expired(allowed *deadline.Adaptive, limit time.Duration, what string) error {
	allowed.Expired(limit)
	return fmt.Errorf("%w: the peer has accepted the connection, but %s took longer than %v; the next attempt has %v",
		os.ErrDeadlineExceeded, what, limit, allowed.Allowed())
}

// greetedConn is a connection whose first bytes have to come in time.
type greetedConn struct {
	net.Conn
	allowed *deadline.Adaptive
	limit   time.Duration
	start   time.Time
	greeted bool // of the reader alone
}

// Read reads, the first time within the limit.
func (c *greetedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.greeted {
		return n, err
	}
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = expired(c.allowed, c.limit, "its first frame")
		}
		return n, err
	}
	c.greeted = true
	c.allowed.Took(time.Since(c.start))
	return n, c.SetReadDeadline(time.Time{})
}
