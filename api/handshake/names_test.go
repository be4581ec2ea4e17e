package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"testing"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

func named(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{}
	if name != "" {
		u, err := url.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		c.URIs = []*url.URL{u}
	}
	return c
}

// methods are those that the node service registers.
func methods() (all []string) {
	d := nodev1.NodeService_ServiceDesc
	for _, m := range d.Methods {
		all = append(all, "/"+d.ServiceName+"/"+m.MethodName)
	}
	for _, s := range d.Streams {
		all = append(all, "/"+d.ServiceName+"/"+s.StreamName)
	}
	return all
}

// TestEveryMethodHasItsCallers: a method that is added has to be put into the table.
func TestEveryMethodHasItsCallers(t *testing.T) {
	for _, method := range methods() {
		node, router, operator := callersOf(method)
		if nobody := method == nodev1.NodeService_AdoptMap_FullMethodName; nobody == (node || router || operator) {
			t.Errorf("%s: callers are node %v, router %v, operator %v", method, node, router, operator)
		}
		for _, role := range []certificate.Role{certificate.RoleCA, certificate.RoleEtcd, certificate.RoleClient, "", "king"} {
			if mayCall(role, method) {
				t.Errorf("%q may call %s", role, method)
			}
		}
	}
	if mayCall(certificate.RoleNode, "/tickmesh.node.v1.NodeService/New") {
		t.Error("a method that nobody has listed may be called")
	}
}

func TestVerifyCaller(t *testing.T) {
	old, authority := named(t, ""), named(t, "tickmesh://home/authority")
	for _, test := range []struct {
		name               string
		authority          *x509.Certificate
		required, optional bool
	}{
		{"tickmesh://home/node/n1", authority, true, true},
		{"tickmesh://home/router", old, true, true},
		{"tickmesh://home/operator/me", authority, true, true},
		{"tickmesh://office/router", authority, false, false},
		{"tickmesh://home/client/c", authority, false, false},
		{"tickmesh://home/client/c", old, false, false},
		{"tickmesh://home/etcd", authority, false, false},
		{"tickmesh://home/authority", authority, false, false},
		{"tickmesh://home/node", old, false, false},
		{"", old, false, true},
		{"", authority, false, false},
	} {
		chains := [][]*x509.Certificate{{named(t, test.name), test.authority}}
		for optional, want := range map[bool]bool{false: test.required, true: test.optional} {
			err := Names{Cluster: "home", Optional: optional}.VerifyCaller(chains)
			if (err == nil) != want || err != nil && !errors.Is(err, wire.ErrDenied) {
				t.Errorf("%q, optional %v: %v", test.name, optional, err)
			}
		}
	}
	if err := (Names{Cluster: "home", Optional: true}).VerifyCaller(nil); err == nil {
		t.Error("nobody is let in")
	}
}

// Certificates of the public ports' clients are of the cluster's authority too, and open no etcd.
func TestVerifyStoreClient(t *testing.T) {
	authority, nameless := named(t, "tickmesh://c/authority"), named(t, "")
	for _, test := range []struct {
		chain []*x509.Certificate
		may   bool
	}{
		{nil, false},
		{[]*x509.Certificate{named(t, "tickmesh://c/client/c1"), authority}, false},
		{[]*x509.Certificate{named(t, "tickmesh://c/client/c1"), nameless}, false},
		{[]*x509.Certificate{named(t, "tickmesh://c/authority"), authority}, false},
		{[]*x509.Certificate{named(t, "tickmesh://c/king/k1"), authority}, false},
		{[]*x509.Certificate{nameless, authority}, false},
		{[]*x509.Certificate{nameless, nameless}, true},
		{[]*x509.Certificate{named(t, "tickmesh://c/node/n1"), authority}, true},
		{[]*x509.Certificate{named(t, "tickmesh://other/router/r1"), authority}, true}, // one etcd can hold several clusters
		{[]*x509.Certificate{named(t, "tickmesh://c/operator"), authority}, true},
		{[]*x509.Certificate{named(t, "tickmesh://c/etcd/e1"), authority}, true},
	} {
		err := VerifyStoreClient([][]*x509.Certificate{test.chain})
		if (err == nil) != test.may || err != nil && !errors.Is(err, wire.ErrDenied) {
			t.Errorf("%v: %v", test.chain, err)
		}
	}
}

func TestVerifyNode(t *testing.T) {
	old := named(t, "")
	for _, test := range []struct {
		name, id string
		want     bool
	}{
		{"tickmesh://home/node/n1", "n1", true}, {"tickmesh://home/node/n1", "", true}, {"tickmesh://home/node/*", "n2", true},
		{"tickmesh://home/node/n1", "n2", false}, {"tickmesh://office/node/n1", "n1", false}, {"tickmesh://office/node/n1", "", false},
		{"tickmesh://home/router", "", false}, {"tickmesh://home/router/n1", "n1", false}, {"", "n1", false},
	} {
		err := Names{Cluster: "home"}.verifyNode([][]*x509.Certificate{{named(t, test.name), old}}, test.id)
		if (err == nil) != test.want || err != nil && !errors.Is(err, wire.ErrWrongNode) {
			t.Errorf("%q for %q: %v", test.name, test.id, err)
		}
	}
	if err := (Names{Cluster: "home", Optional: true}).verifyNode([][]*x509.Certificate{{old, old}}, "n1"); err != nil {
		t.Errorf("a node of an older authority: %v", err)
	}
}

func TestAdmit(t *testing.T) {
	n1 := New("home", "", "n1", identity("a"), 1)
	tool := New("home", "", "", "", 1)
	for _, test := range []struct {
		name   string
		caller Hello
		method string
		want   bool
	}{
		{"tickmesh://home/node/n1", n1, nodev1.NodeService_Exchange_FullMethodName, true},
		{"tickmesh://home/node/*", n1, nodev1.NodeService_Exchange_FullMethodName, true},
		{"tickmesh://home/node/n2", n1, nodev1.NodeService_Exchange_FullMethodName, false},
		{"tickmesh://office/node/n1", n1, nodev1.NodeService_Exchange_FullMethodName, false},
		{"tickmesh://home/node/n1", tool, nodev1.NodeService_Exchange_FullMethodName, false},
		{"tickmesh://home/node/n1", tool, nodev1.NodeService_Report_FullMethodName, true},
		{"tickmesh://home/node/n1", n1, nodev1.NodeService_Delete_FullMethodName, false},
		{"tickmesh://home/router", n1, nodev1.NodeService_Exchange_FullMethodName, false},
		{"tickmesh://home/router", n1, nodev1.NodeService_Scan_FullMethodName, false},
		{"tickmesh://home/router", tool, nodev1.NodeService_Scan_FullMethodName, true},
		{"tickmesh://office/router", tool, nodev1.NodeService_Scan_FullMethodName, false},
		{"tickmesh://home/operator", tool, nodev1.NodeService_Report_FullMethodName, true},
		{"tickmesh://home/operator", tool, nodev1.NodeService_Scan_FullMethodName, false},
		{"tickmesh://home/client/c", tool, nodev1.NodeService_Handshake_FullMethodName, false},
		{"", tool, nodev1.NodeService_Handshake_FullMethodName, false},
	} {
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{named(t, test.name)}}
		ctx := peer.NewContext(context.Background(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: state}})
		err := Names{Cluster: "home"}.admit(ctx, test.method, test.caller)
		if (err == nil) != test.want || err != nil && !errors.Is(err, wire.ErrDenied) {
			t.Errorf("%q as %s calls %s: %v", test.name, test.caller, test.method, err)
		}
	}
	for _, p := range []*peer.Peer{{AuthInfo: credentials.TLSInfo{}}, {AuthInfo: strange{}}} {
		if err := (Names{Cluster: "home"}).admit(peer.NewContext(context.Background(), p), methods()[0], tool); !errors.Is(err, wire.ErrDenied) {
			t.Errorf("%T without a certificate: %v", p.AuthInfo, err)
		}
	}
}

type strange struct{}

func (strange) AuthType() string { return "strange" }

// BenchmarkAdmit is what a call costs more.
func BenchmarkAdmit(b *testing.B) {
	u, err := url.Parse("tickmesh://home/router/r1")
	if err != nil {
		b.Fatal(err)
	}
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{{URIs: []*url.URL{u}}}}
	ctx := peer.NewContext(context.Background(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: state}})
	names, caller := Names{Cluster: "home"}, New("home", "", "", "", 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := names.admit(ctx, nodev1.NodeService_Scan_FullMethodName, caller); err != nil {
			b.Fatal(err)
		}
	}
}
