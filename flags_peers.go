package main

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

// peerTLSSettings are for connections inside the cluster. Both sides show a
// certificate of the authority that names them.
type peerTLSSettings struct {
	rpcTLS, etcdTLS tlsFiles
	names           oneOf
	insecureSetting
}

// The words of --rpc-tls-names.
const (
	namesRequired = "required"
	namesOptional = "optional"
)

func (s *peerTLSSettings) define(f *pflag.FlagSet) {
	f.StringVar(&s.rpcTLS.cert, "rpc-tls-cert", "", "`file` with the certificate for connections between nodes and routers; empty: no TLS")
	f.StringVar(&s.rpcTLS.key, "rpc-tls-key", "", "`file` with its key")
	f.StringVar(&s.rpcTLS.ca, "rpc-tls-ca", "", "`file` with the authority of both sides' certificates")
	s.names = oneOf{value: namesRequired, words: []string{namesRequired, namesOptional}}
	f.Var(&s.names, "rpc-tls-names", "whether certificates must name their process, as those of tickmesh certs do, or need not if their authority names none")
	f.StringVar(&s.etcdTLS.cert, "etcd-tls-cert", "", "`file` with the certificate that etcd is shown")
	f.StringVar(&s.etcdTLS.key, "etcd-tls-key", "", "`file` with its key")
	f.StringVar(&s.etcdTLS.ca, "etcd-tls-ca", "", "`file` with the authority of etcd's certificate; empty: no TLS")
	group(f, headingTLS, "rpc-tls-cert", "rpc-tls-key", "rpc-tls-ca", "rpc-tls-names", "etcd-tls-cert", "etcd-tls-key", "etcd-tls-ca")
	s.insecureSetting.define(f)
}

func (s *peerTLSSettings) validate(v *validation, etcdEndpoints []string) {
	s.rpcTLS.validate(v, "rpc-tls")
	s.etcdTLS.validate(v, "etcd-tls")
	if s.rpcTLS.set() && (s.rpcTLS.ca == "" || s.rpcTLS.cert == "") {
		v.refuse("rpc-tls-ca", s.rpcTLS.ca, "expected --rpc-tls-cert, --rpc-tls-key and --rpc-tls-ca together")
	}
	for _, endpoint := range etcdEndpoints {
		if !s.etcdTLS.set() && !strings.HasPrefix(endpoint, "https://") {
			s.expose(v, "etcd-endpoints", strings.TrimPrefix(endpoint, "http://"), "etcd-tls")
		}
	}
}

// exposeRPC notes an address at which nodes are called, or this node is.
func (s *peerTLSSettings) exposeRPC(v *validation, flag, address string) {
	if !s.rpcTLS.set() {
		s.expose(v, flag, address, "rpc-tls")
	}
}

// insecureSetting allows connections that anybody on the network can read and make.
type insecureSetting struct {
	insecure bool
	open     []string // what is open, for the log
}

func (s *insecureSetting) define(f *pflag.FlagSet) {
	f.BoolVar(&s.insecure, "insecure", false, "allow connections inside the cluster without TLS beyond the loopback: whoever reaches them can read, change and delete everything")
	group(f, headingTLS, "insecure")
}

// expose notes an address that is used without mutual TLS: refused beyond the loopback
// unless --insecure allows it.
func (s *insecureSetting) expose(v *validation, flag, address, prefix string) {
	if address == "" || loopback.IsAddress(address) {
		return
	}
	if !s.insecure {
		v.refuse(flag, address, fmt.Sprintf(
			"beyond the loopback it needs mutual TLS: --%s-cert, --%s-key and --%s-ca (`tickmesh certs` makes the files), or --insecure to leave it open to everybody who can reach it",
			prefix, prefix, prefix))
		return
	}
	s.open = append(s.open, "--"+flag+" "+address)
}

// warn tells at each start what is open.
func (s *insecureSetting) warn(logger *slog.Logger) {
	if len(s.open) > 0 {
		logger.Warn("open to everybody who can reach it, without TLS, as --insecure allows: they can read, change and delete everything; `tickmesh certs` makes certificates",
			"open", strings.Join(s.open, ", "))
	}
}

// peerCredentials are for the connections between nodes and routers.
type peerCredentials struct {
	server, client credentials.TransportCredentials // nil: without TLS
	names          handshake.Names
}

// rpcCredentials returns the credentials of a process of a cluster. Without an id it is
// not checked whom its own certificate names.
func (s *peerTLSSettings) rpcCredentials(cluster string, role certificate.Role, id string, logger *slog.Logger) (p peerCredentials, err error) {
	s.warn(logger)
	p.names = handshake.Names{Cluster: cluster, Optional: s.names.value == namesOptional}
	if !s.rpcTLS.set() {
		if !s.insecure {
			p.client = transport.Loopback()
		}
		return p, nil
	}
	files, err := transport.NewTLS(transport.Files{Cert: s.rpcTLS.cert, Key: s.rpcTLS.key, CA: s.rpcTLS.ca, VerifyClient: p.names.VerifyCaller}, logger, time.Now)
	if err != nil {
		return p, err
	}
	if err := p.checkOwn(files, s.rpcTLS.cert, role, id, logger); err != nil {
		return p, err
	}
	p.client = files.Credentials()
	p.server, err = files.ServerCredentials()
	return p, err
}

// checkOwn refuses to start with a certificate that the others would refuse.
func (p *peerCredentials) checkOwn(files *transport.TLS, file string, role certificate.Role, id string, logger *slog.Logger) error {
	name, err := certificate.NameOf(files.Certificate())
	wanted := certificate.Name{Cluster: p.names.Cluster, Role: role, ID: id}
	switch {
	case err != nil:
		return fmt.Errorf("--rpc-tls-cert %s: %w", file, err)
	case name == (certificate.Name{}) && p.names.Optional:
		logger.Warn("the certificate names no process, so any certificate of its authority opens this one; `tickmesh certs` makes certificates with names", "file", file)
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
