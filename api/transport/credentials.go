package transport

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
)

// Credentials gives what a gRPC client dials with. Each handshake goes by the files
// of its time.
func (t *TLS) Credentials() credentials.TransportCredentials {
	return &clientCredentials{tls: t, TransportCredentials: credentials.NewTLS(t.ClientConfig(""))}
}

// ServerCredentials gives what a gRPC server listens with. Errors: ErrTLS without a
// certificate.
func (t *TLS) ServerCredentials() (credentials.TransportCredentials, error) {
	config, err := t.ServerConfig()
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(config), nil
}

type clientCredentials struct {
	credentials.TransportCredentials
	tls *TLS
}

// ClientHandshake does the handshake with the authorities of now.
func (c *clientCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(c.tls.ClientConfig("")).ClientHandshake(ctx, authority, conn)
}

// Clone gives a copy.
func (c *clientCredentials) Clone() credentials.TransportCredentials {
	return &clientCredentials{tls: c.tls, TransportCredentials: c.TransportCredentials.Clone()}
}
