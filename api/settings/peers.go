package settings

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/loopback"
	"github.com/tickmesh/tickmesh/api/transport"
)

// PeerTLS are the settings of TLS of connections inside the cluster. Both sides show a
// certificate of the CA that names them.
type PeerTLS struct {
	rpcTLS, etcdTLS TLSFiles
	names           Choice
	Insecure
}

// The words of --rpc-tls-names.
const (
	namesRequired = "required"
	namesOptional = "optional"
)

// Define defines the flags, below HeadingTLS.
func (s *PeerTLS) Define(f *pflag.FlagSet) {
	f.StringVar(&s.rpcTLS.Cert, "rpc-tls-cert", "", "`file` with the certificate for connections between nodes and routers; empty: no TLS")
	f.StringVar(&s.rpcTLS.Key, "rpc-tls-key", "", "`file` with its key")
	f.StringVar(&s.rpcTLS.CA, "rpc-tls-ca", "", "`file` with the CA of both sides' certificates")
	s.names = Choice{Value: namesRequired, Words: []string{namesRequired, namesOptional}}
	f.Var(&s.names, "rpc-tls-names", "whether certificates must name their process, as those of tickmesh certs do, or need not if their CA names none")
	f.StringVar(&s.etcdTLS.Cert, "etcd-tls-cert", "", "`file` with the certificate that etcd is shown")
	f.StringVar(&s.etcdTLS.Key, "etcd-tls-key", "", "`file` with its key")
	f.StringVar(&s.etcdTLS.CA, "etcd-tls-ca", "", "`file` with the CA of etcd's certificate; empty: no TLS")
	Group(f, HeadingTLS, "rpc-tls-cert", "rpc-tls-key", "rpc-tls-ca", "rpc-tls-names", "etcd-tls-cert", "etcd-tls-key", "etcd-tls-ca")
	s.Insecure.Define(f)
}

// Validate refuses what cannot work together, and connections to etcd that would be open.
func (s *PeerTLS) Validate(v *Validation, etcdEndpoints []string) {
	s.rpcTLS.Validate(v, "rpc-tls")
	s.etcdTLS.Validate(v, "etcd-tls")
	if s.rpcTLS.IsSet() && (s.rpcTLS.CA == "" || s.rpcTLS.Cert == "") {
		v.Refuse("rpc-tls-ca", s.rpcTLS.CA, "expected --rpc-tls-cert, --rpc-tls-key and --rpc-tls-ca together")
	}
	for _, endpoint := range etcdEndpoints {
		if !s.etcdTLS.IsSet() && !strings.HasPrefix(endpoint, "https://") {
			s.Expose(v, "etcd-endpoints", strings.TrimPrefix(endpoint, "http://"), "etcd-tls")
		}
	}
}

// ExposeRPC refuses an address at which nodes are called without TLS, as Expose does.
func (s *PeerTLS) ExposeRPC(v *Validation, flag, address string) {
	if !s.rpcTLS.IsSet() {
		s.Expose(v, flag, address, "rpc-tls")
	}
}

// Insecure allows connections that anybody on the network can read and make.
type Insecure struct {
	allowed bool
	open    []string // what is open, for the log
}

// Define defines the flag, below HeadingTLS.
func (s *Insecure) Define(f *pflag.FlagSet) {
	f.BoolVar(&s.allowed, "insecure", false, "allow connections inside the cluster without TLS beyond the loopback: whoever reaches them can read, change and delete everything")
	Group(f, HeadingTLS, "insecure")
}

// Expose refuses an address beyond the loopback that is used without mutual TLS, unless
// --insecure allows it. The flags that would secure it begin with prefix.
func (s *Insecure) Expose(v *Validation, flag, address, prefix string) {
	if address == "" || loopback.IsAddress(address) {
		return
	}
	if !s.allowed {
		v.Refuse(flag, address, fmt.Sprintf(
			"beyond the loopback it needs mutual TLS: --%s-cert, --%s-key and --%s-ca (`tickmesh certs` makes the files), or --insecure to leave it open to everybody who can reach it",
			prefix, prefix, prefix))
		return
	}
	s.open = append(s.open, "--"+flag+" "+address)
}

// Warn logs what is open.
func (s *Insecure) Warn(logger *slog.Logger) {
	if len(s.open) > 0 {
		logger.Warn("open to everybody who can reach it, without TLS, as --insecure allows: they can read, change and delete everything; `tickmesh certs` makes certificates",
			"open", strings.Join(s.open, ", "))
	}
}

// PeerCredentials are for the connections between nodes and routers.
type PeerCredentials struct {
	Server, Client credentials.TransportCredentials // nil: without TLS
	Names          handshake.Names
}

// RPCCredentials returns the credentials of a process of a cluster. Without an id it is
// not checked whom its own certificate names.
func (s *PeerTLS) RPCCredentials(cluster string, role certificate.Role, id string, logger *slog.Logger) (p PeerCredentials, err error) {
	s.Warn(logger)
	p.Names = handshake.Names{Cluster: cluster, Optional: s.names.Value == namesOptional}
	if !s.rpcTLS.IsSet() {
		if !s.allowed {
			p.Client = transport.Loopback()
		}
		return p, nil
	}
	files, err := transport.NewTLS(transport.Files{Cert: s.rpcTLS.Cert, Key: s.rpcTLS.Key, CA: s.rpcTLS.CA, VerifyClient: p.Names.VerifyCaller}, logger, time.Now)
	if err != nil {
		return p, err
	}
	if err := p.checkOwn(files, s.rpcTLS.Cert, role, id, logger); err != nil {
		return p, err
	}
	p.Client = files.Credentials()
	p.Server, err = files.ServerCredentials()
	return p, err
}

// checkOwn refuses to start with a certificate that the others would refuse.
func (p *PeerCredentials) checkOwn(files *transport.TLS, file string, role certificate.Role, id string, logger *slog.Logger) error {
	name, err := certificate.NameOf(files.Certificate())
	wanted := certificate.Name{Cluster: p.Names.Cluster, Role: role, ID: id}
	switch {
	case err != nil:
		return fmt.Errorf("--rpc-tls-cert %s: %w", file, err)
	case name == (certificate.Name{}) && p.Names.Optional:
		logger.Warn("the certificate names no process, so any certificate of its CA opens this one; `tickmesh certs` makes certificates with names", "file", file)
		return nil
	case name == (certificate.Name{}):
		return fmt.Errorf("--rpc-tls-cert %s: the certificate does not name %s, so the others would refuse it: make one with `tickmesh certs`, or begin with --rpc-tls-names %s", file, wanted, namesOptional)
	case id != "" && !name.Is(wanted.Cluster, role, id):
		return fmt.Errorf("--rpc-tls-cert %s: the certificate is of %s, and this is %s", file, name, wanted)
	case name.Cluster != wanted.Cluster:
		return fmt.Errorf("--rpc-tls-cert %s: the certificate is of %s, and this is cluster %q", file, name, wanted.Cluster)
	}
	return nil
}
