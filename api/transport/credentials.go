package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tickmesh/tickmesh/api/loopback"
)

// Credentials returns what a gRPC client dials with. Each handshake goes by the files
// of its time.
func (t *TLS) Credentials() credentials.TransportCredentials {
	return &clientCredentials{tls: t, TransportCredentials: credentials.NewTLS(t.ClientConfig(""))}
}

// ServerCredentials returns what a gRPC server listens with. It logs whom it refuses.
// Errors: ErrTLS without a certificate.
func (t *TLS) ServerCredentials() (credentials.TransportCredentials, error) {
	config, err := t.ServerConfig()
	if err != nil {
		return nil, err
	}
	return &serverCredentials{tls: t, TransportCredentials: credentials.NewTLS(config)}, nil
}

type serverCredentials struct {
	credentials.TransportCredentials
	tls *TLS
}

// ServerHandshake does the handshake. gRPC itself says nothing of those that fail.
func (s *serverCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := s.TransportCredentials.ServerHandshake(conn)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) { // a port that is only looked at is no news
		s.tls.refused(conn.RemoteAddr(), err)
	}
	return secure, info, err
}

// Clone returns a copy.
func (s *serverCredentials) Clone() credentials.TransportCredentials {
	return &serverCredentials{tls: s.tls, TransportCredentials: s.TransportCredentials.Clone()}
}

type clientCredentials struct {
	credentials.TransportCredentials
	tls *TLS
}

// ClientHandshake does the handshake with the CAs of now.
func (c *clientCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(c.tls.ClientConfig("")).ClientHandshake(ctx, authority, conn)
}

// Clone returns a copy.
func (c *clientCredentials) Clone() credentials.TransportCredentials {
	return &clientCredentials{tls: c.tls, TransportCredentials: c.TransportCredentials.Clone()}
}

// Loopback returns credentials of a client without TLS that makes connections to this
// machine only.
func Loopback() credentials.TransportCredentials {
	return loopbackCredentials{insecure.NewCredentials()}
}

type loopbackCredentials struct {
	credentials.TransportCredentials
}

// ClientHandshake refuses connections that leave this machine. Errors: ErrTLS.
func (c loopbackCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if address := conn.RemoteAddr(); loopback.IsRemote(address) {
		_ = conn.Close() // the reason counts
		return nil, nil, fmt.Errorf("%w: %s is beyond the loopback: mutual TLS is needed, or --insecure by name", ErrTLS, address)
	}
	return c.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

// Clone returns a copy.
func (c loopbackCredentials) Clone() credentials.TransportCredentials {
	return loopbackCredentials{c.TransportCredentials.Clone()}
}
