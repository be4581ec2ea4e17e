package etcdstore

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// lastFault holds why the newest attempt to connect to etcd has failed; nil: it has not. The client tries again without end and says of
// a call no more than that its time was over, while an operator has to know that nothing listens, or whose certificate is refused.
type lastFault struct{ err atomic.Pointer[error] }

func (f *lastFault) set(err error) { f.err.Store(&err) }

// explain adds the fault to what a call says, if that is only that time was over.
func (f *lastFault) explain(err error) error {
	if fault := f.err.Load(); fault != nil && *fault != nil && errors.Is(err, context.DeadlineExceeded) {
		return &explained{err, *fault}
	}
	return err
}

// explained is an error with the fault behind it.
type explained struct{ err, fault error }

func (e *explained) Error() string   { return e.fault.Error() }
func (e *explained) Unwrap() []error { return []error{e.err, e.fault} }

// dial connects as gRPC does by itself.
func (f *lastFault) dial(ctx context.Context, address string) (net.Conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", strings.TrimPrefix(path, "//")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		f.set(err)
	}
	return conn, err
}

func (f *lastFault) options(tls credentials.TransportCredentials) []grpc.DialOption {
	dial := f.dial
	if tls == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := f.dial(ctx, address)
			if err != nil {
				return nil, err
			}
			return &watchedConn{Conn: conn, fault: f}, nil
		}
	}
	// The proxy that the environment names is for the internet, as between nodes.
	list := []grpc.DialOption{grpc.WithNoProxy(), grpc.WithContextDialer(dial)}
	if tls != nil { // a tls.Config would keep the CAs of the start
		list = append(list, grpc.WithTransportCredentials(&watchedCredentials{tls, f}))
	}
	return list
}

// watchedCredentials are credentials whose failed handshakes are noted.
type watchedCredentials struct {
	credentials.TransportCredentials
	fault *lastFault
}

// ClientHandshake notes failures. A server refuses a certificate of TLS 1.3 after the handshake, by the first bytes that are read.
func (c *watchedCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, conn)
	if err != nil {
		c.fault.set(err)
		return secured, info, err
	}
	return &watchedConn{Conn: secured, fault: c.fault}, info, nil
}

// Clone returns a copy that notes its failures at the same place.
func (c *watchedCredentials) Clone() credentials.TransportCredentials {
	return &watchedCredentials{c.TransportCredentials.Clone(), c.fault}
}

// watchedConn is a connection of which it is noted whether the first read succeeds.
type watchedConn struct {
	net.Conn
	fault *lastFault
	read  bool // by gRPC's one reader
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.read {
		if n > 0 {
			c.read = true
			c.fault.set(nil)
		} else if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			c.fault.set(err)
		}
	}
	return n, err
}
