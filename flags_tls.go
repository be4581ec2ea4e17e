package main

import "github.com/spf13/pflag"

const headingTLS = "TLS (PEM files, read again when they change)"

// tlsFiles name the files of one kind of connection.
type tlsFiles struct{ cert, key, ca string }

func (t *tlsFiles) set() bool { return t.cert != "" || t.key != "" || t.ca != "" }

func (t *tlsFiles) validate(v *validation, prefix string) {
	if (t.cert == "") != (t.key == "") {
		v.refuse(prefix+"-cert", t.cert, "expected --"+prefix+"-cert and --"+prefix+"-key together")
	}
}

// clientTLSSettings are for the ports that clients use.
type clientTLSSettings struct{ clientTLS tlsFiles }

func (s *clientTLSSettings) define(f *pflag.FlagSet) {
	f.StringVar(&s.clientTLS.cert, "tls-cert", "", "`file` with the certificate of the ports for clients; empty: no TLS")
	f.StringVar(&s.clientTLS.key, "tls-key", "", "`file` with its key")
	f.StringVar(&s.clientTLS.ca, "tls-client-ca", "", "`file` with the authorities of clients, which then must show a certificate")
	group(f, headingTLS, "tls-cert", "tls-key", "tls-client-ca")
}

func (s *clientTLSSettings) validate(v *validation) { s.clientTLS.validate(v, "tls") }

// peerTLSSettings are for connections inside the cluster. Both sides show a
// certificate of the authority.
type peerTLSSettings struct{ rpcTLS, etcdTLS tlsFiles }

func (s *peerTLSSettings) define(f *pflag.FlagSet) {
	f.StringVar(&s.rpcTLS.cert, "rpc-tls-cert", "", "`file` with the certificate for connections between nodes and routers; empty: no TLS")
	f.StringVar(&s.rpcTLS.key, "rpc-tls-key", "", "`file` with its key")
	f.StringVar(&s.rpcTLS.ca, "rpc-tls-ca", "", "`file` with the authority of both sides' certificates")
	f.StringVar(&s.etcdTLS.cert, "etcd-tls-cert", "", "`file` with the certificate that etcd is shown")
	f.StringVar(&s.etcdTLS.key, "etcd-tls-key", "", "`file` with its key")
	f.StringVar(&s.etcdTLS.ca, "etcd-tls-ca", "", "`file` with the authority of etcd's certificate; empty: no TLS")
	group(f, headingTLS, "rpc-tls-cert", "rpc-tls-key", "rpc-tls-ca", "etcd-tls-cert", "etcd-tls-key", "etcd-tls-ca")
}

func (s *peerTLSSettings) validate(v *validation) {
	s.rpcTLS.validate(v, "rpc-tls")
	s.etcdTLS.validate(v, "etcd-tls")
	if s.rpcTLS.set() && (s.rpcTLS.ca == "" || s.rpcTLS.cert == "") {
		v.refuse("rpc-tls-ca", s.rpcTLS.ca, "expected --rpc-tls-cert, --rpc-tls-key and --rpc-tls-ca together")
	}
}
