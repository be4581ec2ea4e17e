package attack

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// members are the processes of a cluster with certificates of `tickmesh certs`: etcd, two nodes
// and a router, which is the ground.
type members struct {
	*ground
	certs string // the folder
	etcd  *member
	nodes []*member
}

const clusterName = "tickmesh"

// newMembers starts a cluster. It goes with the test.
func newMembers(t *testing.T) *members {
	t.Helper()
	m := &members{ground: prepareGround(t, *seed, true)}
	m.certs = filepath.Join(m.dir, "certs")
	free, err := harness.FreeAddresses(9)
	if err != nil {
		t.Fatal(err)
	}
	host := func(address string) string { host, _, _ := net.SplitHostPort(address); return host }
	m.certify(t, m.certs, "etcd/e1="+host(free[0])+","+host(free[1]), "node/n1="+host(free[3]), "node/n2="+host(free[5]), "router/r1", "operator", "client/c1")
	m.etcd = &member{name: "etcd", rpc: free[0], http: free[1], knownAddresses: free[:3]}
	e1 := filepath.Join(m.certs, "etcd-e1")
	m.run(t, m.etcd, "etcd", "--data-dir", filepath.Join(m.dir, "e1"), "--client-addr", free[0], "--peer-addr", free[1], "--metrics-addr", free[2],
		"--client-tls-cert", e1+".crt", "--client-tls-key", e1+".key", "--client-tls-ca", m.authorityFile(),
		"--peer-tls-cert", e1+".crt", "--peer-tls-key", e1+".key", "--peer-tls-ca", m.authorityFile(), "--log-level", "warn")
	auth := m.writeUsers(t, userGone)
	common := func(holder string) []string {
		flags := []string{"--cluster", clusterName, "--etcd-endpoints", free[0], "--shards", "8", "--replication", "2", "--auth-file", auth,
			"--pprof", "--admin", "--shutdown-timeout", shutdownTimeout.String(), "--log-level", "warn"}
		for _, use := range []string{"rpc", "etcd"} {
			file := filepath.Join(m.certs, holder)
			flags = append(flags, "--"+use+"-tls-cert", file+".crt", "--"+use+"-tls-key", file+".key", "--"+use+"-tls-ca", m.authorityFile())
		}
		return flags
	}
	for n, id := range []string{"n1", "n2"} {
		node := &member{name: id, rpc: free[3+2*n], http: free[4+2*n]}
		node.knownAddresses = []string{node.rpc, node.http}
		m.nodes = append(m.nodes, node)
		m.run(t, node, append([]string{"node", "--node-id", id, "--data-dir", filepath.Join(m.dir, id), "--rpc-addr", node.rpc, "--advertise-addr", node.rpc,
			"--http-addr", node.http, "--wal-sync", "off"}, common("node-"+id)...)...)
	}
	router := &member{name: "router", http: m.at.HTTP, knownAddresses: []string{m.at.HTTP, m.at.Put, m.at.Line, m.at.Graphite, m.at.OTLP, m.grpc, m.metrics}}
	m.run(t, router, append([]string{"router", "--initial-nodes", "2", "--http-addr", m.at.HTTP, "--put-addr", m.at.Put, "--line-addr", m.at.Line,
		"--graphite-addr", m.at.Graphite, "--grpc-addr", m.grpc, "--otlp-grpc-addr", m.at.OTLP, "--metrics-addr", m.metrics, "--rules-file", m.writeRules(t), "--udp-addr", m.udp, "--udp-user", userOther, "--udp-database", "evil"}, common("router-r1")...)...)
	m.server = &harness.Standalone{Process: router.Process, HTTPAddr: m.at.HTTP, PutAddr: m.at.Put, LineAddr: m.at.Line}
	start := router.start
	router.start = func(t *testing.T) { t.Helper(); start(t); m.server.Process = router.Process }
	m.processes = append([]*member{router}, m.nodes...)
	m.processes = append(m.processes, m.etcd)
	m.awaitReady(t)
	m.fill(t)
	return m
}

func (m *members) authorityFile() string { return filepath.Join(m.certs, "ca.crt") }

// certify makes certificates as an administrator does.
func (m *members) certify(t *testing.T, dir string, arguments ...string) {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), program(t), append([]string{"certs", "--dir", dir}, arguments...)...).CombinedOutput(); err != nil {
		t.Fatalf("tickmesh certs: %v\n%s", err, output)
	}
}

// run starts a process in a control group of its own.
func (m *members) run(t *testing.T, p *member, arguments ...string) {
	t.Helper()
	p.group = memoryGroup(t, memoryMax)
	starts := 0
	p.start = func(t *testing.T) {
		t.Helper()
		starts++
		options := harness.ProcessOptions{Path: program(t), Args: arguments, Group: p.group, LogPath: filepath.Join(m.dir, fmt.Sprintf("%s-%d.log", p.name, starts))}
		var process *harness.Process
		var err error
		launch(func() { process, err = harness.StartProcess(options) })
		if err != nil {
			t.Fatal(err)
		}
		p.Process = process
	}
	p.start(t)
	checkListeners(t, p.Process)
	t.Cleanup(func() {
		p.Kill()
		if p.group == nil {
			return
		}
		if kills, err := p.group.Kills(); err != nil || kills != 0 {
			t.Errorf("%s: the kernel has ended %d processes because %d bytes were full (%v)", p.name, kills, memoryMax, err)
		}
		if err := p.group.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestMembers attacks the processes of a cluster on every port that they listen on, and with every
// certificate but the right one.
func TestMembers(t *testing.T) {
	t.Logf("seed %d", *seed)
	m := newMembers(t)
	p := startPhases(t, m.ground)
	step := func(name string, attack func(*testing.T)) { p.step(t, name, phaseLong, once(attack)) }
	samples := append(grpcSamples("/tickmesh.node.v1.NodeService/Write"), grpcSamples("/etcdserverpb.KV/Range")...)
	samples = append(samples, httpSamples()...)
	var storms []storm
	for _, member := range m.processes {
		for _, address := range m.portsOf(t, member) {
			s := storm{member.name, "tcp", address, samples}
			for _, known := range m.storms() { // the router's have samples of their own
				if known.address == address {
					s.samples = known.samples
				}
			}
			storms = append(storms, s)
		}
	}
	for _, s := range m.storms() {
		if s.network == "udp" {
			storms = append(storms, s)
		}
	}
	p.storms(t, storms, 700*time.Millisecond)
	for _, i := range m.impostors(t) {
		step("calls by "+i.name, func(t *testing.T) { m.tryImpostor(t, i) })
	}
	step("HTTP of nodes", m.tryNodeHTTP)
	p.step(t, "issuer", 0, once(m.tryIssuer))
	for _, b := range wideBombs() {
		p.step(t, "bomb "+b.name, bombLong, func(t *testing.T) func(*testing.T) { return m.throw(t, b) })
	}
	p.step(t, "withdrawn key", 0, once(m.tryWithdrawnKey))
	p.clients.stop()
	m.checkVault(t)
	m.tryWithdrawnAuthority(t)
	m.checkEnds(t)
}

// portsOf returns all TCP addresses of a process, and fails where one is not known.
func (m *members) portsOf(t *testing.T, p *member) (all []string) {
	t.Helper()
	ports, err := harness.ListeningPorts(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range ports {
		if !slices.Contains(p.knownAddresses, port.String()) {
			t.Errorf("%s listens at %v, which nobody told it", p.name, port)
		}
		all = append(all, port.String())
	}
	if len(all) != len(p.knownAddresses) {
		t.Errorf("%s listens at %v, want %v", p.name, all, p.knownAddresses)
	}
	return all
}

// impostor is somebody with a certificate that does not open all doors.
type impostor struct {
	name  string
	shown *tls.Certificate
	self  []handshake.Hello // who it says it is
	// may are the methods of nodes that the certificate is for, as one of the above.
	may    []string
	etcd   bool // it may talk to etcd as a client
	member bool // and as another of etcd's members
}

func (m *members) impostors(t *testing.T) []impostor {
	t.Helper()
	tool := handshake.New(clusterName, "", "", "", 1)
	node := func(id string) handshake.Hello {
		return handshake.New(clusterName, "", id, strings.Repeat("ab", 16), 1)
	}
	all := []handshake.Hello{tool, node("n1"), node("n2"), node("n3")}
	load := func(dir, holder string) *tls.Certificate {
		c, err := tls.LoadX509KeyPair(filepath.Join(dir, holder+".crt"), filepath.Join(dir, holder+".key"))
		if err != nil {
			t.Fatal(err)
		}
		return &c
	}
	foreign := filepath.Join(m.dir, "foreign")
	m.certify(t, foreign, "router/r1", "node/n2", "etcd/e1")
	authority := m.authority(t)
	issue := func(name certificate.Name, validity time.Duration, at time.Time) *tls.Certificate {
		pair, err := authority.Issue(certificate.Identity{CommonName: "x", Hosts: []string{"localhost"}, Name: name}, validity, at)
		if err != nil {
			t.Fatal(err)
		}
		return pair.TLS()
	}
	router := certificate.Name{Cluster: clusterName, Role: certificate.RoleRouter, ID: "r1"}
	changed := *load(m.certs, "router-r1")
	changed.Certificate = [][]byte{slices.Clone(changed.Certificate[0])}
	changed.Certificate[0][len(changed.Certificate[0])-1] ^= 1
	list := []impostor{
		{name: "nobody with TLS", self: all},
		{name: "the router of another authority", shown: load(foreign, "router-r1"), self: all},
		{name: "a node of another authority", shown: load(foreign, "node-n2"), self: all},
		{name: "the etcd of another authority", shown: load(foreign, "etcd-e1"), self: all},
		{name: "a router whose signature is changed", shown: &changed, self: all},
		{name: "a router that has expired", shown: issue(router, time.Hour, time.Now().Add(-2*time.Hour)), self: all},
		{name: "a router that begins tomorrow", shown: issue(router, time.Hour, time.Now().Add(49*time.Hour)), self: all},
		{name: "a router of another cluster of this authority", shown: issue(certificate.Name{Cluster: "other", Role: certificate.RoleRouter, ID: "r1"}, time.Hour, time.Now()), self: all, etcd: true},
		{name: "somebody without a name of this authority", shown: issue(certificate.Name{}, time.Hour, time.Now()), self: all},
		{name: "a client", shown: load(m.certs, "client-c1"), self: all},
		{name: "etcd", shown: load(m.certs, "etcd-e1"), self: all, etcd: true, member: true},
		{name: "the operator", shown: load(m.certs, "operator"), self: all, may: []string{"Handshake", "Report"}, etcd: true},
		{name: "the router as a node", shown: load(m.certs, "router-r1"), self: all[1:], etcd: true},
		{name: "the router", shown: load(m.certs, "router-r1"), self: all[:1], etcd: true,
			may: []string{"Handshake", "Report", "Write", "Scan", "Last", "ListSeries", "ListNames", "History", "WriteExemplars", "ListExemplars", "TakeSnapshot", "EndSnapshot", "Delete", "TransferLeader"}},
		{name: "a node as another or the router", shown: load(m.certs, "node-n2"), self: []handshake.Hello{node("n1"), node("n3"), tool}, may: []string{"Handshake", "Report"}, etcd: true},
		{name: "a node", shown: load(m.certs, "node-n2"), self: []handshake.Hello{node("n2")}, etcd: true,
			may: []string{"Handshake", "Report", "Exchange", "FetchShard", "FetchRange", "Digest", "RepairShard"}},
	}
	return list
}

// authority is that of the cluster, with its key.
func (m *members) authority(t *testing.T) *certificate.Pair {
	t.Helper()
	var texts [2][]byte
	for n, file := range []string{"ca.crt", "ca.key"} {
		var err error
		if texts[n], err = os.ReadFile(filepath.Join(m.certs, file)); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := certificate.DecodePair(texts[0], texts[1])
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// config is the TLS of an impostor, who does not care whom it talks to.
func (i impostor) config() *tls.Config {
	c := &tls.Config{InsecureSkipVerify: true}
	if i.shown != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.shown, nil } // whatever is asked for
	}
	return c
}

// tryImpostor calls every method of nodes that the certificate is not for, and etcd.
func (m *members) tryImpostor(t *testing.T, i impostor) {
	conn := dial(t, m.nodes[0].rpc, credentials.NewTLS(i.config()))
	for _, e := range expectations(t) {
		name := e.path[strings.LastIndex(e.path, "/")+1:]
		if e.port != "rpc" || slices.Contains(i.may, name) {
			continue
		}
		method := methodOf(t, e.path)
		for _, self := range i.self {
			hello, err := self.Encode()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), handshake.Header, hello), 5*time.Second)
			received, err := invoke(ctx, conn, e.path, method, requestOf(method.Input(), m.vault(), 2))
			cancel()
			m.spy.see("call of "+e.path+" by "+i.name, "", received)
			if code := status.Code(err); code != codes.Unavailable && code != codes.PermissionDenied && code != codes.Unauthenticated {
				t.Errorf("%s by %s as %s: %v", e.path, i.name, self, err)
			}
		}
	}
	for _, method := range []string{"/etcdserverpb.KV/Range", "/etcdserverpb.KV/Put", "/etcdserverpb.Maintenance/Snapshot", "/etcdserverpb.Cluster/MemberList"} {
		err := m.callEtcd(t, i, method)
		refused := status.Code(err) == codes.Unavailable || status.Code(err) == codes.PermissionDenied
		if refused == i.etcd {
			t.Errorf("%s by %s: %v", method, i.name, err)
		}
	}
	transport := &http.Transport{TLSClientConfig: i.config(), DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Get("https://" + m.etcd.http + "/members")
	if err == nil {
		response.Body.Close()
	}
	if (err == nil) != i.member {
		t.Errorf("etcd's port for its members, asked by %s: %v", i.name, err)
	}
}

// callEtcd sends an empty message to etcd: whoever may call it is told what is missing.
func (m *members) callEtcd(t *testing.T, i impostor, method string) error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+m.etcd.rpc, grpc.WithTransportCredentials(credentials.NewTLS(i.config())))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return conn.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{})
}

// tryNodeHTTP asks the HTTP ports of nodes as nobody and as users without rights.
func (m *members) tryNodeHTTP(t *testing.T) {
	client := clientFrom(attacker(0), true)
	defer client.CloseIdleConnections()
	for _, e := range expectations(t) {
		if e.port != "node" || strings.HasSuffix(e.path, "/profile") || strings.HasSuffix(e.path, "/trace") {
			continue // those two take their time, and are behind the same check as their neighbours
		}
		for _, method := range e.methods {
			for _, user := range []string{"", userOther, userReader, userWriter} {
				a := m.callBy(t.Context(), client, user, method, "http://"+m.nodes[0].http+e.path, nil, "")
				what := fmt.Sprintf("%s %s of a node as %q", method, e.path, user)
				if user == "" || user == userOther {
					m.spy.seeAnswer(what, "", a)
				}
				switch {
				case a.err != nil:
					t.Errorf("%s: %v", what, a.err)
				case user == "" && e.right != "open" && a.status != http.StatusUnauthorized:
					t.Errorf("%s: %d, want 401", what, a.status)
				case !has(user, e.right) && a.status < http.StatusBadRequest:
					t.Errorf("%s is served: %d %.100s", what, a.status, a.body)
				}
			}
		}
	}
	for n, forged := range m.forgeries() {
		if strings.ContainsRune(forged, 0) {
			continue
		}
		a := m.callBy(t.Context(), client, "", http.MethodGet, "http://"+m.nodes[0].http+"/metrics", http.Header{"Authorization": {forged}}, "")
		if a.err != nil || a.status < http.StatusBadRequest {
			t.Errorf("forgery %d of a node's user: %d %v", n, a.status, a.err)
		}
	}
}

// tryWithdrawnAuthority takes the authority away from a node: what it has signed is refused
// from then on, without a restart.
func (m *members) tryWithdrawnAuthority(t *testing.T) {
	t.Helper()
	shown, err := tls.LoadX509KeyPair(filepath.Join(m.certs, "router-r1.crt"), filepath.Join(m.certs, "router-r1.key"))
	if err != nil {
		t.Fatal(err)
	}
	old := impostor{shown: &shown}
	hello, err := handshake.New(clusterName, "", "", "", 1).Encode()
	if err != nil {
		t.Fatal(err)
	}
	ask := func() error {
		conn, err := grpc.NewClient("passthrough:///"+m.nodes[0].rpc, grpc.WithTransportCredentials(credentials.NewTLS(old.config())))
		if err != nil {
			return err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), handshake.Header, hello), 5*time.Second)
		defer cancel()
		return conn.Invoke(ctx, "/tickmesh.node.v1.NodeService/Report", &emptypb.Empty{}, &emptypb.Empty{})
	}
	if err := ask(); status.Code(err) == codes.Unavailable || status.Code(err) == codes.PermissionDenied {
		t.Fatalf("before: %v", err)
	}
	next, err := certificate.NewCA(clusterName, "next", time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.authorityFile()+".new", certificate.EncodeCertificates(next.Certificate), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(m.authorityFile()+".new", m.authorityFile()); err != nil {
		t.Fatal(err)
	}
	m.eventually(t, func() error {
		if err := ask(); status.Code(err) != codes.Unavailable {
			return fmt.Errorf("a certificate of an authority that was taken away: %w", err)
		}
		return nil
	})
}

// checkEnds ends each process in turn while it is under attack.
func (m *members) checkEnds(t *testing.T) {
	t.Helper()
	for _, p := range m.processes {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var held []func()
		for _, address := range p.knownAddresses {
			held = append(held, flood(t, address, 100))
			s := storm{p.name, "tcp", address, append(grpcSamples("/tickmesh.node.v1.NodeService/Write"), httpSamples()...)}
			all.Go(func() {
				for ctx.Err() == nil {
					s.rage(t, *seed, m.spy, 300*time.Millisecond)
				}
			})
		}
		pause(t, 300*time.Millisecond)
		begin := time.Now()
		if err := p.Terminate(shutdownTimeout + shutdownSlack); err != nil && !strings.Contains(p.LogTail(1<<16), leftOpen) {
			t.Errorf("%s: the end after SIGTERM: %v\n%s", p.name, err, p.LogTail(2048))
		}
		t.Logf("%s ended %v after SIGTERM", p.name, time.Since(begin).Round(time.Millisecond))
		cancel()
		all.Wait()
		for _, release := range held {
			release()
		}
	}
}
