package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/limitedlog"
)

// ErrTLS marks files that are no usable certificate, key or CAs.
var ErrTLS = errors.New("TLS")

// ReadInterval is how often, at most, the files are read again.
const ReadInterval = time.Second

const fileBytesMax = 1 << 20

// Files name PEM files. Cert and Key come together: a server needs them, a client
// has them where the server asks for one. CA has the CAs that the other
// side's certificate must come from; without it a client goes by the system's, and
// a server lets clients be without a certificate.
type Files struct {
	Cert, Key, CA string
	// Optional admits clients of a server with CA without a certificate, because they show
	// otherwise who they are. One that is shown must come from the CAs all the same.
	Optional bool
	// VerifyClient, if set, may refuse a client whose certificate comes from the CAs,
	// by the chains that show it.
	VerifyClient func(chains [][]*x509.Certificate) error
}

// Set reports whether any file is named: whether there is to be TLS at all.
func (f Files) Set() bool { return f.Cert != "" || f.Key != "" || f.CA != "" }

// TLS provides TLS configurations that follow their files. Whoever starts a handshake
// reads the files again, once in ReadInterval. Files that do not fit together, as
// between the two renames of a rotation, are reported and the ones before stay in
// use. Connections that are open stay open. It is safe for concurrent use.
type TLS struct {
	files  Files
	logger *slog.Logger
	now    func() time.Time

	refusals limitedlog.Log

	mu struct {
		sync.Mutex
		readAt   time.Time
		contents [3][]byte // of the files in use: certificate, key, CAs
		refused  [3][]byte // of files that did not fit: reported once
		current  *material
	}
}

// material is what the files say.
type material struct {
	certificate *tls.Certificate // nil: none
	roots       *x509.CertPool   // nil: not named
}

// NewTLS reads the files. Errors: ErrTLS, with the name of the file.
func NewTLS(files Files, logger *slog.Logger, now func() time.Time) (*TLS, error) {
	if (files.Cert == "") != (files.Key == "") {
		return nil, fmt.Errorf("%w: certificate %q with key %q: both are needed", ErrTLS, files.Cert, files.Key)
	}
	contents, err := files.read()
	if err != nil {
		return nil, err
	}
	m, err := files.parse(contents)
	if err != nil {
		return nil, err
	}
	t := &TLS{files: files, logger: logger, now: now, refusals: limitedlog.Log{Logger: logger, Clock: now}}
	t.mu.readAt, t.mu.contents, t.mu.current = now(), contents, m
	return t, nil
}

func (f Files) read() (contents [3][]byte, err error) {
	for i, name := range [...]string{f.Cert, f.Key, f.CA} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return contents, fmt.Errorf("%w: %w", ErrTLS, err)
		}
		if info.Size() > fileBytesMax || !info.Mode().IsRegular() {
			return contents, fmt.Errorf("%w: %s is no file of at most %d bytes", ErrTLS, name, fileBytesMax)
		}
		if contents[i], err = os.ReadFile(name); err != nil {
			return contents, fmt.Errorf("%w: %w", ErrTLS, err)
		}
	}
	return contents, nil
}

func (f Files) parse(contents [3][]byte) (*material, error) {
	m := &material{}
	if f.Cert != "" {
		certificate, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return nil, fmt.Errorf("%w: %s and %s: %w", ErrTLS, f.Cert, f.Key, err)
		}
		m.certificate = &certificate
	}
	if f.CA != "" {
		m.roots = x509.NewCertPool()
		if !m.roots.AppendCertsFromPEM(contents[2]) {
			return nil, fmt.Errorf("%w: %s has no certificate", ErrTLS, f.CA)
		}
	}
	return m, nil
}

// material returns what the files say now, or said when they last made sense.
func (t *TLS) material() *material {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if since := now.Sub(t.mu.readAt); since >= 0 && since < ReadInterval {
		return t.mu.current
	}
	t.mu.readAt = now
	contents, err := t.files.read()
	if err == nil && sameContents(contents, t.mu.contents) {
		return t.mu.current
	}
	var m *material
	if err == nil {
		m, err = t.files.parse(contents)
	}
	if err != nil {
		if t.mu.refused[0] == nil || !sameContents(contents, t.mu.refused) {
			t.logger.Warn("TLS files are not usable; the ones before stay in use", "error", err)
		}
		contents[0] = append([]byte{}, contents[0]...) // not nil: reported
		t.mu.refused = contents
		return t.mu.current
	}
	t.logger.Info("TLS files have changed; new connections use them", "certificate", t.files.Cert, "ca", t.files.CA)
	t.mu.contents, t.mu.current, t.mu.refused = contents, m, [3][]byte{}
	return m
}

// refused logs that a client was not let in.
func (t *TLS) refused(client net.Addr, reason error) {
	t.refusals.Warn("a connection is refused: TLS", "client", client.String(), "error", reason)
}

func sameContents(a, b [3][]byte) bool {
	return bytes.Equal(a[0], b[0]) && bytes.Equal(a[1], b[1]) && bytes.Equal(a[2], b[2])
}

// ServerConfig returns the configuration of a listener. With CA, clients have to show
// a certificate, unless that is Optional. Errors: ErrTLS without a certificate.
func (t *TLS) ServerConfig() (*tls.Config, error) {
	if t.files.Cert == "" {
		return nil, fmt.Errorf("%w: a server needs a certificate", ErrTLS)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return t.material().certificate, nil
		},
	}
	if t.files.CA != "" {
		// crypto/tls would verify by the CAs of the start. It calls
		// VerifyConnection for resumed sessions too.
		config.ClientAuth = tls.RequireAnyClientCert
		if t.files.Optional {
			config.ClientAuth = tls.RequestClientCert
		}
		config.VerifyConnection = func(state tls.ConnectionState) error {
			if t.files.Optional && len(state.PeerCertificates) == 0 {
				return nil
			}
			chains, err := verify(state, t.material().roots, x509.ExtKeyUsageClientAuth)
			if err == nil && t.files.VerifyClient != nil {
				err = t.files.VerifyClient(chains)
			}
			return err
		}
	}
	return config, nil
}

func verify(state tls.ConnectionState, roots *x509.CertPool, usage x509.ExtKeyUsage) ([][]*x509.Certificate, error) {
	if len(state.PeerCertificates) == 0 {
		return nil, fmt.Errorf("%w: the other side has no certificate", ErrTLS)
	}
	options := x509.VerifyOptions{
		Roots: roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{usage},
	}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	return state.PeerCertificates[0].Verify(options)
}

// Certificate returns the certificate of now; nil: the files have none.
func (t *TLS) Certificate() *x509.Certificate {
	if c := t.material().certificate; c != nil {
		return c.Leaf
	}
	return nil
}

// ClientConfig returns the configuration of one connection to a server that has to
// have a certificate for serverName; empty: whoever makes the connection sets it,
// as net/http does. Its CAs are those of now: ask again for the next
// connection. gRPC connections use Credentials, which does.
func (t *TLS) ClientConfig(serverName string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: serverName,
		RootCAs:    t.material().roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if c := t.material().certificate; c != nil {
				return c, nil
			}
			return &tls.Certificate{}, nil
		},
	}
}
