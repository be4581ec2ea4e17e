package handshake

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// Names describes how the certificates of a cluster's processes are checked. The zero value lets
// nobody in that shows one.
type Names struct {
	Cluster string
	// Optional admits certificates without a name, as long as their CA signs such
	// ones: while a cluster moves from a CA of an older version to one of this.
	Optional bool
}

// errNoName is the reason why a certificate without a name is refused.
var errNoName = errors.New("the certificate names no process of the cluster; `tickmesh certs` makes one that does")

// VerifyCaller checks, when a connection is made, that the caller's certificate is of a
// process that may call nodes at all. What it may call is checked at each call. Errors:
// wire.ErrDenied.
func (n Names) VerifyCaller(chains [][]*x509.Certificate) error {
	if len(chains) == 0 || len(chains[0]) == 0 {
		return fmt.Errorf("%w: %w", wire.ErrDenied, errNoName)
	}
	name, err := certificate.NameOf(chains[0][0])
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", wire.ErrDenied, err)
	case name == (certificate.Name{}) && n.Optional && !certificate.Names(chains):
		return nil
	case name == (certificate.Name{}):
		return fmt.Errorf("%w: %w", wire.ErrDenied, errNoName)
	case name.Cluster != n.Cluster:
		return fmt.Errorf("%w: the certificate is of %s, this is cluster %q", wire.ErrDenied, name, n.Cluster)
	}
	switch name.Role {
	case certificate.RoleNode, certificate.RoleRouter, certificate.RoleOperator:
		return nil
	case certificate.RoleCA, certificate.RoleEtcd, certificate.RoleClient:
	}
	return fmt.Errorf("%w: the certificate is of %s, which calls no node", wire.ErrDenied, name)
}

// VerifyStoreClient checks a certificate that was shown to the placement store: whoever writes
// there places shards. One without a name is let in where its CA names nobody, as those of
// an etcd for several uses do. Errors: wire.ErrDenied.
func VerifyStoreClient(chains [][]*x509.Certificate) error {
	if len(chains) == 0 || len(chains[0]) == 0 {
		return fmt.Errorf("%w: %w", wire.ErrDenied, errNoName)
	}
	name, err := certificate.NameOf(chains[0][0])
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", wire.ErrDenied, err)
	case name == (certificate.Name{}) && !certificate.Names(chains):
		return nil
	case name == (certificate.Name{}):
		return fmt.Errorf("%w: %w", wire.ErrDenied, errNoName)
	}
	switch name.Role {
	case certificate.RoleNode, certificate.RoleRouter, certificate.RoleOperator, certificate.RoleEtcd:
		return nil
	case certificate.RoleCA, certificate.RoleClient:
	}
	return fmt.Errorf("%w: the certificate is of %s, which has no business with etcd", wire.ErrDenied, name)
}

// verifyNode checks that a certificate is that of a node; an empty id means any.
func (n Names) verifyNode(chains [][]*x509.Certificate, id string) error {
	if len(chains) == 0 || len(chains[0]) == 0 {
		return fmt.Errorf("%w: %w", wire.ErrWrongNode, errNoName)
	}
	name, err := certificate.NameOf(chains[0][0])
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", wire.ErrWrongNode, err)
	case name == (certificate.Name{}) && n.Optional && !certificate.Names(chains):
		return nil
	case name == (certificate.Name{}):
		return fmt.Errorf("%w: %w", wire.ErrWrongNode, errNoName)
	case id == "" && name.Cluster == n.Cluster && name.Role == certificate.RoleNode:
		return nil
	case !name.Is(n.Cluster, certificate.RoleNode, id):
		return fmt.Errorf("%w: node %q of cluster %q was meant, the certificate is of %s", wire.ErrWrongNode, id, n.Cluster, name)
	}
	return nil
}

// admit checks a call against the certificate of its connection. Connections without TLS
// have none: whoever listens has chosen that.
func (n Names) admit(ctx context.Context, method string, caller Hello) error {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return fmt.Errorf("%w: a call without a connection", wire.ErrInternal)
	}
	if p.AuthInfo == nil || p.AuthInfo.AuthType() == plaintext {
		return nil
	}
	secure, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(secure.State.PeerCertificates) == 0 {
		return fmt.Errorf("%w: a call over %s without a certificate", wire.ErrDenied, p.AuthInfo.AuthType())
	}
	name, err := certificate.NameOf(secure.State.PeerCertificates[0])
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", wire.ErrDenied, err)
	case name == (certificate.Name{}) && n.Optional:
		return nil // VerifyCaller has looked at its CA
	case !mayCall(name.Role, method):
		return fmt.Errorf("%w: %s may not call %s", wire.ErrDenied, name, method)
	case caller.Node != "" && name.Is(n.Cluster, certificate.RoleNode, caller.Node):
		return nil
	case name.Role == certificate.RoleNode && caller.Node == "" && name.Cluster == n.Cluster && mayCall(certificate.RoleOperator, method):
		return nil // an administrator's command beside a node
	case name.Role != certificate.RoleNode && caller.Node == "" && name.Cluster == n.Cluster:
		return nil
	}
	return fmt.Errorf("%w: the certificate is of %s, the caller says that it is %s", wire.ErrDenied, name, caller)
}

// plaintext is the type of connections without TLS (grpc/credentials/insecure).
const plaintext = "insecure"

// mayCall reports whether a role may call a method of the node service. One that is not
// listed is for nobody.
func mayCall(role certificate.Role, method string) bool {
	node, router, operator := callersOf(method)
	switch role {
	case certificate.RoleNode:
		return node
	case certificate.RoleRouter:
		return router
	case certificate.RoleOperator:
		return operator
	case certificate.RoleCA, certificate.RoleEtcd, certificate.RoleClient:
	}
	return false
}

// callersOf is the table of who calls what.
func callersOf(method string) (node, router, operator bool) {
	switch method {
	case nodev1.NodeService_Handshake_FullMethodName, nodev1.NodeService_Report_FullMethodName:
		return true, true, true
	case nodev1.NodeService_Exchange_FullMethodName, nodev1.NodeService_FetchShard_FullMethodName, nodev1.NodeService_FetchRange_FullMethodName,
		nodev1.NodeService_Digest_FullMethodName, nodev1.NodeService_RepairShard_FullMethodName:
		return true, false, false
	case nodev1.NodeService_Write_FullMethodName, nodev1.NodeService_Scan_FullMethodName, nodev1.NodeService_Last_FullMethodName,
		nodev1.NodeService_ListSeries_FullMethodName, nodev1.NodeService_ListNames_FullMethodName, nodev1.NodeService_History_FullMethodName,
		nodev1.NodeService_WriteExemplars_FullMethodName, nodev1.NodeService_ListExemplars_FullMethodName,
		nodev1.NodeService_TakeSnapshot_FullMethodName, nodev1.NodeService_EndSnapshot_FullMethodName,
		nodev1.NodeService_Delete_FullMethodName, nodev1.NodeService_TransferLeader_FullMethodName:
		return false, true, false
	}
	return false, false, false
}

// Credentials returns credentials of a client that accept a server only if its certificate
// is that of the node; empty: of any. Without TLS there is nothing to check; nil stays nil.
func (n Names) Credentials(c credentials.TransportCredentials, node string) credentials.TransportCredentials {
	if c == nil {
		return nil
	}
	return &nodeCredentials{TransportCredentials: c, names: n, node: node}
}

type nodeCredentials struct {
	credentials.TransportCredentials
	names Names
	node  string
}

// ClientHandshake does the handshake and checks who is at the other end.
func (c *nodeCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, conn)
	if err != nil {
		return nil, nil, err
	}
	switch tls, ok := info.(credentials.TLSInfo); {
	case ok:
		err = c.names.verifyNode(tls.State.VerifiedChains, c.node)
	case info.AuthType() != plaintext:
		err = fmt.Errorf("%w: credentials of type %s", wire.ErrInternal, info.AuthType())
	}
	if err != nil {
		_ = secure.Close() // the reason counts
		return nil, nil, err
	}
	return secure, info, nil
}

// Clone returns a copy.
func (c *nodeCredentials) Clone() credentials.TransportCredentials {
	return &nodeCredentials{TransportCredentials: c.TransportCredentials.Clone(), names: c.names, node: c.node}
}
