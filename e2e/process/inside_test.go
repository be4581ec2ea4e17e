package process

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node/member"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// certs makes certificates in a folder by the command, and returns the folder.
func certs(t *testing.T, arguments ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	if code, _, stderr := run(t, nil, append([]string{"certs", "--dir", dir}, arguments...)...); code != 0 {
		t.Fatal(stderr)
	}
	return dir
}

// filesOf name the files of a holder in such a folder.
func filesOf(dir, holder string) identityFiles {
	return identityFiles{Files: transport.Files{
		Cert: filepath.Join(dir, holder+".crt"), Key: filepath.Join(dir, holder+".key"), CA: filepath.Join(dir, "ca.crt"),
	}}
}

// nodeMethod is a method of the node service, as it is registered.
type nodeMethod struct {
	full   string
	stream *grpc.StreamDesc // nil: a single call
}

func nodeMethods() (all []nodeMethod) {
	d := nodev1.NodeService_ServiceDesc
	for _, m := range d.Methods {
		all = append(all, nodeMethod{full: "/" + d.ServiceName + "/" + m.MethodName})
	}
	for i := range d.Streams {
		all = append(all, nodeMethod{full: "/" + d.ServiceName + "/" + d.Streams[i].StreamName, stream: &d.Streams[i]})
	}
	return all
}

// call calls a method of a node with an empty message, as a process that says it is self.
func (m nodeMethod) call(t *testing.T, address string, secure credentials.TransportCredentials, self handshake.Hello) error {
	t.Helper()
	options := append(transport.DialOptions(secure), grpc.WithUserAgent("attack"))
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	encoded, err := self.Encode()
	if err != nil {
		t.Fatal(err)
	}
	ctx = withHeader(ctx, encoded)
	if m.stream == nil {
		return conn.Invoke(ctx, m.full, &emptypb.Empty{}, &emptypb.Empty{})
	}
	stream, err := conn.NewStream(ctx, m.stream, m.full)
	if err != nil {
		return err
	}
	_ = stream.SendMsg(&emptypb.Empty{}) // RecvMsg has the reason
	_ = stream.CloseSend()
	return stream.RecvMsg(&emptypb.Empty{})
}

// TestInsideIsClosed calls every method of real nodes as everybody who is not to: without
// TLS, without a certificate, with one that names nobody, a client, etcd, another cluster or
// another role, and as a node that says it is another.
func TestInsideIsClosed(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	dir := certs(t, "node/n1", "node/n2", "router/r1", "operator", "client/c1", "etcd/e1")
	for _, id := range []string{"n1", "n2"} {
		c.startNode(id, filesOf(dir, "node-"+id).flags("rpc-tls", "rpc-tls-ca")...)
	}
	router := c.startRouter(append(filesOf(dir, "router-r1").flags("rpc-tls", "rpc-tls-ca"), "--initial-nodes", "2")...)
	c.awaitCopies(router)
	writePoints(t, router, 0, 3)
	address := c.nodes[0].addr["rpc"]
	tool := handshake.New("tickmesh", "", "", "", rand.Uint64())
	node := func(id string) handshake.Hello {
		return handshake.New("tickmesh", "", id, strings.Repeat("ab", 16), rand.Uint64())
	}
	unnamed, foreign := unnamedFiles(t, dir), filesOf(certs(t, "--cluster", "foreign", "router/r1"), "router-r1")
	foreign.CA = filepath.Join(dir, "ca.crt")
	noCertificate := filesOf(dir, "client-c1").open(t).ClientConfig("")
	noCertificate.GetClientCertificate = nil
	show := func(f identityFiles) credentials.TransportCredentials { return f.open(t).Credentials() }
	for _, m := range nodeMethods() {
		for who, secure := range map[string]credentials.TransportCredentials{
			"nobody": nil, "no certificate": credentials.NewTLS(noCertificate), "no name": show(unnamed), "client": show(filesOf(dir, "client-c1")),
			"etcd": show(filesOf(dir, "etcd-e1")), "a foreign authority": show(foreign),
		} {
			for _, self := range []handshake.Hello{tool, node("n2")} {
				if err := m.call(t, address, secure, self); status.Code(err) != codes.Unavailable {
					t.Errorf("%s calls %s as %s: %v", who, m.full, self, err)
				}
			}
		}
		for _, test := range []struct {
			holder string
			self   handshake.Hello
			may    []string
		}{
			{"router-r1", tool, []string{"Handshake", "Report", "Write", "Scan", "Last", "ListSeries", "ListNames", "History", "Delete", "TransferLeader", "TakeSnapshot", "EndSnapshot", "WriteExemplars", "ListExemplars"}},
			{"router-r1", node("n2"), nil},
			{"operator", tool, []string{"Handshake", "Report"}},
			{"node-n2", node("n2"), []string{"Handshake", "Report", "Exchange", "FetchShard", "FetchRange", "Digest", "RepairShard"}},
			{"node-n2", node("n3"), nil},
			{"node-n2", tool, []string{"Handshake", "Report"}},
		} {
			err := m.call(t, address, show(filesOf(dir, test.holder)), test.self)
			may := slices.Contains(test.may, m.full[strings.LastIndex(m.full, "/")+1:])
			if denied := status.Code(err) == codes.PermissionDenied && strings.Contains(err.Error(), wire.ErrDenied.Error()); denied == may {
				t.Errorf("%s calls %s as %s: %v", test.holder, m.full, test.self, err)
			}
		}
	}
	_, body := get(t, router.url("/api/query?start=1699999999&end=1700000004&m=count:cpu"))
	if !strings.Contains(body, `"1700000002"`) {
		t.Errorf("after the attacks: %s", body)
	}
}

// unnamedFiles are a certificate without a name of the authority in a folder, as somebody
// makes for clients of the public ports.
func unnamedFiles(t *testing.T, dir string) identityFiles {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := certificate.DecodePair(text, key)
	if err != nil {
		t.Fatal(err)
	}
	return newIdentity(t, "", &authority{certificate: signer.Certificate, key: signer.Key, pem: text}, &authority{pem: text})
}

// TestNamesOptional: certificates of an authority that names nobody come in only where that
// was chosen.
func TestNamesOptional(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	a := newAuthority(t, "old")
	f := newIdentity(t, "", a, a)
	tlsFlags := f.flags("rpc-tls", "rpc-tls-ca")
	if code, _, stderr := run(t, nil, c.nodeArguments("n1", tlsFlags...)...); code != 1 || !strings.Contains(stderr, "the certificate does not name tickmesh://tickmesh/node/n1") {
		t.Errorf("%d %s", code, stderr)
	}
	c.flags = append(append(c.flags, tlsFlags...), "--rpc-tls-names", "optional")
	c.startNode("n1")
	c.startNode("n2")
	router := c.startRouter("--initial-nodes", "2")
	c.awaitCopies(router)
	// Who is named is held to it all the same.
	named := newIdentity(t, "tickmesh://tickmesh/client/x", a, a)
	tool := handshake.New("tickmesh", "", "", "", rand.Uint64())
	if err := nodeMethods()[0].call(t, c.nodes[0].addr["rpc"], named.open(t).Credentials(), tool); status.Code(err) != codes.Unavailable {
		t.Errorf("a client's certificate: %v", err)
	}
	wrong := newIdentity(t, "tickmesh://tickmesh/node/n9", a, a)
	arguments := c.nodeArguments("n3", wrong.flags("rpc-tls", "rpc-tls-ca")...)
	if code, _, stderr := run(t, nil, arguments...); code != 1 || !strings.Contains(stderr, "is of tickmesh://tickmesh/node/n9, and this is tickmesh://tickmesh/node/n3") {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestOpenPortsAreChosen: beyond the loopback nothing starts without mutual TLS, unless that
// was chosen by name; then each start warns of it.
func TestOpenPortsAreChosen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const needs = "beyond the loopback it needs mutual TLS"
	for _, test := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"node", "--data-dir", dir}, `--rpc-addr: invalid value ":6190": ` + needs},
		{[]string{"node", "--data-dir", dir, "--rpc-addr", "0.0.0.0:6190"}, `--rpc-addr: invalid value "0.0.0.0:6190": ` + needs},
		{[]string{"node", "--data-dir", dir, "--rpc-addr", "127.0.0.1:0", "--etcd-endpoints", "10.1.2.3:2379"}, `--etcd-endpoints: invalid value "10.1.2.3:2379": ` + needs},
		{[]string{"router", "--etcd-endpoints", "http://etcd:2379"}, `--etcd-endpoints: invalid value "etcd:2379": ` + needs},
		{[]string{"rescue-map", "--nodes", "n1:6190"}, `--nodes: invalid value "n1:6190": ` + needs},
		{[]string{"etcd", "--data-dir", dir, "--client-addr", ":2379"}, `--client-addr: invalid value ":2379": ` + needs},
		{[]string{"etcd", "--data-dir", dir, "--peer-addr", "[::]:2380"}, `--peer-addr: invalid value "[::]:2380": ` + needs},
		{[]string{"etcd", "--data-dir", dir, "--client-addr", ":2379", "--client-tls-cert", "x", "--client-tls-key", "x"}, `--client-addr: invalid value ":2379": ` + needs},
	} {
		code, _, stderr := run(t, nil, test.arguments...)
		if code != 1 || !strings.Contains(stderr, test.want) || !strings.Contains(stderr, "tickmesh certs") || !strings.Contains(stderr, "--insecure") {
			t.Errorf("%v: code %d, %q, want %q", test.arguments, code, stderr, test.want)
		}
	}
	c := newTestCluster(t)
	node := c.startNode("n1", "--rpc-addr", "0.0.0.0:0", "--advertise-addr", "127.0.0.1:1", "--insecure")
	node.waitLog("open to everybody who can reach it", func(l map[string]any) bool {
		return l["level"] == "WARN" && l["open"] == "--rpc-addr 0.0.0.0:0"
	})
}

// TestLocalClusterIsClosed: no other process can call the nodes and the etcd of a cluster in
// one process, and the key of their authority is nowhere.
func TestLocalClusterIsClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startProcess(t, 3, "standalone", "--data-dir", dir, "--nodes", "2", "--shards", "4", "--http-addr", "127.0.0.1:0", "--put-addr", "", "--line-addr", "", "--grpc-addr", "127.0.0.1:0")
	tool := handshake.New(member.StandaloneName, "", "", "", rand.Uint64())
	own := filesOf(certs(t, "--cluster", member.StandaloneName, "router/r1"), "router-r1").open(t).ClientConfig("127.0.0.1")
	own.InsecureSkipVerify = true
	for _, m := range nodeMethods() {
		for who, secure := range map[string]credentials.TransportCredentials{
			"nobody": nil, "anybody": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}), "own": credentials.NewTLS(own),
		} {
			if err := m.call(t, s.addr["rpc"], secure, tool); status.Code(err) != codes.Unavailable {
				t.Errorf("%s calls %s: %v", who, m.full, err)
			}
		}
	}
	info, err := os.Stat(filepath.Join(dir, member.LocalTLSDir))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	s.signal(os.Interrupt)
	if state := s.wait(); state.ExitCode() != 0 {
		t.Errorf("it ends with %v", state)
	}
	if _, err := os.Stat(filepath.Join(dir, member.LocalTLSDir)); !os.IsNotExist(err) {
		t.Errorf("the files of etcd are left: %v", err)
	}
}

// TestCerts makes certificates, makes missing ones, keeps what is there, and renews.
func TestCerts(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "certs")
	command := func(want int, arguments ...string) string {
		t.Helper()
		code, stdout, stderr := run(t, nil, append([]string{"certs", "--dir", dir}, arguments...)...)
		if code != want {
			t.Fatalf("%v: code %d, %s %s", arguments, code, stdout, stderr)
		}
		return stdout + stderr
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	out := command(0, "node/n1=10.0.0.1,n1.lan", "etcd/e1")
	for _, want := range []string{"tickmesh://tickmesh/node/n1", "10.0.0.1", "--rpc-tls-cert " + filepath.Join(dir, "node-n1.crt"), "--peer-tls-ca " + filepath.Join(dir, "ca.crt")} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 6 {
		t.Errorf("%v %v", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f.Name(), info.Mode(), err)
		}
	}
	before := read("node-n1.crt") + read("node-n1.key") + read("ca.crt") + read("ca.key")
	same := func(what string) {
		t.Helper()
		if read("node-n1.crt")+read("node-n1.key")+read("ca.crt")+read("ca.key") != before {
			t.Error("files are made anew: ", what)
		}
	}
	command(0, "node/n1", "node/n2", "router/r1=r1.lan")
	same("others are missing")
	command(0, "--renew")
	same("they are fresh")
	if out := command(1, "node/n1=10.0.0.9"); !strings.Contains(out, "--renew makes it anew") {
		t.Error(out)
	}
	same("other hosts")
	command(0, "--renew", "node/n1=10.0.0.9")
	if out := command(0, "node/n1"); !strings.Contains(out, "10.0.0.9") || read("ca.crt")+read("ca.key") != before[len(before)-len(read("ca.crt")+read("ca.key")):] {
		t.Error(out)
	}
	for _, bad := range []string{"king/n1", "node", "node/*", "authority", "node/a/b", "node/../x"} {
		if out := command(1, bad); !strings.Contains(out, "expected ROLE/NAME") {
			t.Error(out)
		}
	}
	if out := command(1, "--cluster", "other", "node/n1"); !strings.Contains(out, "choose another --dir or --cluster") {
		t.Error(out)
	}
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	command(0, "node/n1")
	if out := command(1, "node/n7"); !strings.Contains(out, "put it back") {
		t.Error(out)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out := command(1, "node/n1"); !strings.Contains(out, "others may look into it") {
		t.Error(out)
	}
}

func withHeader(ctx context.Context, hello string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, handshake.Header, hello)
}
