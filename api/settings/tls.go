package settings

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/transport"
)

// TLSFiles are the names of the PEM files of one kind of connection.
type TLSFiles struct{ Cert, Key, CA string }

// IsSet reports whether any file is named.
func (t *TLSFiles) IsSet() bool { return t.Cert != "" || t.Key != "" || t.CA != "" }

// Validate refuses a certificate without its key. The names of the flags begin with prefix.
func (t *TLSFiles) Validate(v *Validation, prefix string) {
	if (t.Cert == "") != (t.Key == "") {
		v.Refuse(prefix+"-cert", t.Cert, "expected --"+prefix+"-cert and --"+prefix+"-key together")
	}
}

// Open reads the files. It returns nil if none are named.
func (t *TLSFiles) Open(logger *slog.Logger) (*transport.TLS, error) {
	if !t.IsSet() {
		return nil, nil
	}
	return transport.NewTLS(transport.Files{Cert: t.Cert, Key: t.Key, CA: t.CA}, logger, time.Now)
}

// PublicTLS are the settings of TLS of the ports that clients use.
type PublicTLS struct {
	clientTLS  TLSFiles
	clientAuth Choice
}

// Define defines the flags, below HeadingTLS.
func (s *PublicTLS) Define(f *pflag.FlagSet) {
	f.StringVar(&s.clientTLS.Cert, "tls-cert", "", "`file` with the certificate of the TCP ports for clients; empty: no TLS")
	f.StringVar(&s.clientTLS.Key, "tls-key", "", "`file` with its key")
	f.StringVar(&s.clientTLS.CA, "tls-client-ca", "", "`file` with the CAs of clients, which then must show a certificate")
	s.clientAuth = Choice{Value: clientRequired, Words: []string{clientRequired, clientOptional}}
	f.Var(&s.clientAuth, "tls-client-auth", "whether clients must show a certificate of --tls-client-ca, or may show by --auth-file's other ways who they are")
	Group(f, HeadingTLS, "tls-cert", "tls-key", "tls-client-ca", "tls-client-auth")
}

// The words of --tls-client-auth.
const (
	clientRequired = "required"
	clientOptional = "optional"
)

// Validate refuses what cannot work together. AuthFile is the file of users; empty: none.
func (s *PublicTLS) Validate(v *Validation, authFile string) {
	if s.clientAuth.Value == clientOptional && authFile == "" {
		v.Refuse("tls-client-auth", clientOptional, "expected --auth-file, too: else everybody could come in")
	}
	s.clientTLS.Validate(v, "tls")
	if s.clientTLS.CA != "" && s.clientTLS.Cert == "" {
		v.Refuse("tls-client-ca", s.clientTLS.CA, "expected --tls-cert and --tls-key, too")
	}
}

// ServerTLS is what the ports for clients are served with.
type ServerTLS struct {
	Config      *tls.Config                      // nil: without TLS
	Credentials credentials.TransportCredentials // of gRPC; nil: without TLS
	Certificate func() *x509.Certificate         // the one of now; nil: without TLS
}

// Server reads the files and returns what listeners need.
func (s *PublicTLS) Server(logger *slog.Logger) (t ServerTLS, err error) {
	if !s.clientTLS.IsSet() {
		return t, nil
	}
	files, err := transport.NewTLS(transport.Files{
		Cert: s.clientTLS.Cert, Key: s.clientTLS.Key, CA: s.clientTLS.CA, Optional: s.clientAuth.Value == clientOptional,
	}, logger, time.Now)
	if err != nil {
		return t, fmt.Errorf("--tls-cert, --tls-key, --tls-client-ca: %w", err)
	}
	t.Certificate = files.Certificate
	if t.Config, err = files.ServerConfig(); err != nil {
		return t, err
	}
	t.Credentials, err = files.ServerCredentials()
	return t, err
}
