package main

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/transport"
)

const headingTLS = "TLS (PEM files, read again when they change)"

// tlsFiles name the files of one kind of connection.
type tlsFiles struct{ cert, key, ca string }

func (t *tlsFiles) set() bool { return t.cert != "" || t.key != "" || t.ca != "" }

func (t *tlsFiles) validate(v *validation, prefix string) {
	if (t.cert == "") != (t.key == "") {
		v.refuse(prefix+"-cert", t.cert, "expected --"+prefix+"-cert and --"+prefix+"-key together")
	}
}

// open reads the files; nil: none are named.
func (t *tlsFiles) open(logger *slog.Logger) (*transport.TLS, error) {
	if !t.set() {
		return nil, nil
	}
	return transport.NewTLS(transport.Files{Cert: t.cert, Key: t.key, CA: t.ca}, logger, time.Now)
}

// clientTLSSettings are for the ports that clients use.
type clientTLSSettings struct {
	clientTLS  tlsFiles
	clientAuth oneOf
}

func (s *clientTLSSettings) define(f *pflag.FlagSet) {
	f.StringVar(&s.clientTLS.cert, "tls-cert", "", "`file` with the certificate of the TCP ports for clients; empty: no TLS")
	f.StringVar(&s.clientTLS.key, "tls-key", "", "`file` with its key")
	f.StringVar(&s.clientTLS.ca, "tls-client-ca", "", "`file` with the authorities of clients, which then must show a certificate")
	s.clientAuth = oneOf{value: clientRequired, words: []string{clientRequired, clientOptional}}
	f.Var(&s.clientAuth, "tls-client-auth", "whether clients must show a certificate of --tls-client-ca, or may show by --auth-file's other ways who they are")
	group(f, headingTLS, "tls-cert", "tls-key", "tls-client-ca", "tls-client-auth")
}

// The words of --tls-client-auth.
const (
	clientRequired = "required"
	clientOptional = "optional"
)

func (s *clientTLSSettings) validate(v *validation, authFile string) {
	if s.clientAuth.value == clientOptional && authFile == "" {
		v.refuse("tls-client-auth", clientOptional, "expected --auth-file, too: else everybody could come in")
	}
	s.clientTLS.validate(v, "tls")
	if s.clientTLS.ca != "" && s.clientTLS.cert == "" {
		v.refuse("tls-client-ca", s.clientTLS.ca, "expected --tls-cert and --tls-key, too")
	}
}

// serverTLS is what the ports for clients are served with.
type serverTLS struct {
	config      *tls.Config                      // nil: without TLS
	certificate func() *x509.Certificate         // the one of now; nil: without TLS
	credentials credentials.TransportCredentials // of gRPC; nil: without TLS
}

// serverTLS reads the files.
func (s *clientTLSSettings) serverTLS(logger *slog.Logger) (t serverTLS, err error) {
	if !s.clientTLS.set() {
		return t, nil
	}
	files, err := transport.NewTLS(transport.Files{
		Cert: s.clientTLS.cert, Key: s.clientTLS.key, CA: s.clientTLS.ca, Optional: s.clientAuth.value == clientOptional,
	}, logger, time.Now)
	if err != nil {
		return t, err
	}
	if t.config, err = files.ServerConfig(); err != nil {
		return t, err
	}
	t.certificate = files.Certificate
	t.credentials, err = files.ServerCredentials()
	return t, err
}
