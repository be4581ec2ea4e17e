package lab

import (
	"archive/zip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

func TestNodeNames(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range allNodes() {
		got, err := parseNode(n.name())
		if err != nil || got != n {
			t.Errorf("%s: %d, %v", n.name(), got, err)
		}
		for _, text := range []string{n.name(), n.address(), n.pods(), n.link()} {
			if seen[text] {
				t.Errorf("%s twice", text)
			}
			seen[text] = true
		}
		if len(n.link()) > 15 {
			t.Errorf("%s is too long for a network device", n.link())
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`node[-+0-9a-z]{0,3}|[a-z0-9]*`).Draw(t, "name")
		n, err := parseNode(text)
		if valid := regexp.MustCompile(`^node[1-9]$`).MatchString(text); valid != (err == nil) || valid && n.name() != text {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	})
}

func TestPKI(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	if err := writePKI(dir, now); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal("no authority", err)
	}
	for _, l := range clusterLeaves() {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, l.file+".crt"), filepath.Join(dir, l.file+".key"))
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range append(slices.Clone(l.hosts), l.addresses...) {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now}); err != nil {
				t.Errorf("%s for %s: %v", l.file, host, err)
			}
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now.Add(24 * time.Hour), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil || pair.Leaf.Subject.CommonName != l.name || strings.Join(pair.Leaf.Subject.Organization, "") != l.organization {
			t.Errorf("%s: %v, %v", l.file, pair.Leaf.Subject, err)
		}
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "front-client.crt"), filepath.Join(dir, "front-client.key")); err != nil {
		t.Error(err)
	}
	public, err := os.ReadFile(filepath.Join(dir, "tokens.pub"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(public)
	if _, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		t.Error(err)
	}
	var config struct {
		Clusters []struct{ Cluster struct{ Server string } }
	}
	decodeYAML(t, mustRead(t, filepath.Join(dir, "admin.kubeconfig")), &config)
	if config.Clusters[0].Cluster.Server != "https://10.99.0.1:6443" {
		t.Errorf("%+v", config)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func decodeYAML(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

// What is written for the programs of a node is of the form that they read.
func TestConfigurations(t *testing.T) {
	f := foldersAt("/some where/checkout")
	m := machine{folders: f, node: 3}
	var plugins struct {
		Plugins []struct {
			IPAM struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	if err := json.Unmarshal(m.networkPlugins(), &plugins); err != nil || plugins.Plugins[0].IPAM.Ranges[0][0].Subnet != "10.244.3.0/24" {
		t.Errorf("%v, %+v", err, plugins)
	}
	var kubelet struct {
		CgroupRoot   string            `yaml:"cgroupRoot"`
		EvictionHard map[string]string `yaml:"evictionHard"`
		TLSCertFile  string            `yaml:"tlsCertFile"`
	}
	decodeYAML(t, m.kubeletConfiguration(), &kubelet)
	if kubelet.CgroupRoot != "/"+f.cgroups().name+"/node3" || kubelet.EvictionHard["nodefs.available"] != "1%" || kubelet.TLSCertFile != f.pki("node3.crt") {
		t.Errorf("%+v", kubelet)
	}
	var proxy struct{ BindAddress string }
	decodeYAML(t, proxyConfiguration(f, 3, "10.99.0.13"), &proxy)

	text, err := manifests(f)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var object struct {
			Kind string
			Data map[string]string
		}
		decodeYAML(t, []byte(document), &object)
		kinds[object.Kind]++
		places, ok := object.Data["config.json"]
		if !ok {
			continue
		}
		var config struct {
			StorageClassConfigs map[string]struct {
				NodePathMap []struct {
					Node  string
					Paths []string
				}
			}
		}
		if err := json.Unmarshal([]byte(places), &config); err != nil {
			t.Error(err)
		}
		for class, folder := range map[string]string{DefaultClass: "volumes", OtherClass: "volumes", SmallClass: "small"} {
			places := config.StorageClassConfigs[class].NodePathMap
			if len(places) != nodesMax || places[2].Node != "node3" || places[2].Paths[0] != filepath.Join(f.Run, "node3", folder) {
				t.Errorf("%s: %+v", class, places)
			}
		}
	}
	if kinds[""] != 0 || kinds["DaemonSet"] != 1 || kinds["StorageClass"] != 3 || kinds["Service"] != 1 {
		t.Errorf("%v", kinds)
	}
}

func TestVersionIsTheModules(t *testing.T) {
	module := mustRead(t, "../binaries/go.mod")
	minor := strings.TrimPrefix(KubernetesVersion, "v1.")
	if !strings.Contains(string(module), "k8s.io/kubernetes "+KubernetesVersion+"\n") &&
		!strings.Contains(string(module), "k8s.io/kubernetes "+KubernetesVersion+" //") {
		t.Errorf("go.mod does not ask for Kubernetes %s", KubernetesVersion)
	}
	replaced := regexp.MustCompile(`(?m)^\tk8s\.io/\S+ => k8s\.io/\S+ (\S+)$`).FindAllStringSubmatch(string(module), -1)
	for _, r := range replaced {
		if r[1] != "v0."+minor {
			t.Error(r[0])
		}
	}
	if len(replaced) < 20 {
		t.Errorf("only %d modules of Kubernetes are replaced", len(replaced))
	}
	flags := linkFlags("v1.35.4")
	for _, want := range []string{"-s -w ", "version.gitMajor=1 ", "version.gitMinor=35 ", "version.gitVersion=v1.35.4 "} {
		if !strings.Contains(flags, want) {
			t.Errorf("%q is missing in %s", want, flags)
		}
	}
}

func TestSettings(t *testing.T) {
	s := settings{t.TempDir()}
	file := filepath.Join(t.TempDir(), "saved")
	if err := s.restore(file); err != nil {
		t.Errorf("nothing saved: %v", err)
	}
	for _, dir := range []string{"vm", "kernel/keys"} {
		if err := os.MkdirAll(filepath.Join(s.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, value string) {
		if err := os.WriteFile(filepath.Join(s.root, name), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("vm/overcommit_memory", "0\n")
	write("kernel/panic", "1\n")
	if err := s.save(file); err != nil {
		t.Fatal(err)
	}
	write("vm/overcommit_memory", "1\n")
	write("kernel/panic_on_oops", "1\n")
	if err := s.restore(file); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"vm/overcommit_memory": "0", "kernel/panic": "1", "kernel/panic_on_oops": "1\n"} {
		if got := string(mustRead(t, filepath.Join(s.root, name))); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// The kernel's files vanish with a group; here there are none but the marks that tell a
// hierarchy.
func TestControlGroups(t *testing.T) {
	c := cgroups{t.TempDir(), "tickmesh-lab"}
	for _, name := range []string{"cpu", "memory", "unified"} {
		if err := os.MkdirAll(filepath.Join(c.root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.root, name, "cgroup.procs"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.check(); err == nil || !strings.Contains(err.Error(), "cpuset") {
		t.Errorf("a missing controller: %v", err)
	}
	if err := c.remove(); err != nil {
		t.Errorf("nothing to remove: %v", err)
	}
	for _, left := range []string{"cpu/tickmesh-lab/node2/kubepods/pod1", "unified/tickmesh-lab/node2/x", "memory/tickmesh-lab/node1/y"} {
		if err := os.MkdirAll(filepath.Join(c.root, left), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.create(2); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"cpu/tickmesh-lab/node2": true, "cpu/tickmesh-lab/node2/kubepods": false, "unified/tickmesh-lab/node2": false,
		"memory/tickmesh-lab/node2": true, "memory/tickmesh-lab/node1/y": true,
	} {
		if exists(filepath.Join(c.root, path)) != want {
			t.Errorf("%s: there is not %v", path, want)
		}
	}
	if err := c.remove(); err != nil || exists(filepath.Join(c.root, "cpu/tickmesh-lab")) || exists(filepath.Join(c.root, "memory/tickmesh-lab")) {
		t.Errorf("left behind: %v", err)
	}
}

func TestFolders(t *testing.T) {
	f, err := FindFolders()
	if err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(f.Checkout, "go.mod")) {
		t.Errorf("%s is no checkout", f.Checkout)
	}
	if _, err := foldersAt("/" + strings.Repeat("long/", 30)).socket(); err == nil {
		t.Error("a socket with a path that is too long")
	}
	if f.cgroups().name == foldersAt("/elsewhere").cgroups().name {
		t.Error("two checkouts share control groups")
	}
	nothing := foldersAt(t.TempDir())
	if _, err := Find(nothing); !errors.Is(err, ErrNotRunning) {
		t.Errorf("found a lab where there is none: %v", err)
	}
	const table = "22 1 0:20 / /a/bc rw - ext4 x\n23 1 0:20 / /a/b rw - ext4 x\n24 1 0:20 / /a/b/c rw - ext4 x\n"
	if mount, found := findMount(table, "/a/b"); mount != "/a/b/c" || !found {
		t.Errorf("found %q, %v", mount, found)
	}
	if err := mountsBelow(t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestUnpackAndReplace(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "a.whl")
	out, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(out)
	w, err := z.Create("x/y")
	if err == nil {
		_, err = w.Write([]byte("content"))
	}
	if err := errors.Join(err, z.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "made", "target")
	if err := unpack(archive, "x/none", target); err == nil {
		t.Error("unpacked what is not there")
	}
	plain := filepath.Join(dir, "plain")
	if err := unpack(archive, "x/y", plain); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(plain, target); err != nil || string(mustRead(t, target)) != "content" || exists(target+".new") {
		t.Errorf("replaced: %v", err)
	}
	if !younger(target, plain) || younger(filepath.Join(dir, "none"), plain) {
		t.Error("younger is wrong")
	}
	old := time.Unix(1, 0)
	if err := os.Chtimes(target, old, old); err != nil || younger(target, plain) {
		t.Errorf("younger than a later file: %v", err)
	}
}

// A lab without machines answers its socket.
func TestControl(t *testing.T) {
	inside := &rack{log: slog.New(slog.DiscardHandler)}
	server := httptest.NewUnstartedServer(inside.routes())
	defer server.Close()
	f := foldersAt(t.TempDir())
	if err := os.MkdirAll(f.Run, 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server.Listener = listener
	server.Start()
	outside := &Rack{Folders: f, control: controlClient(socket)}
	machines, err := outside.Machines(t.Context())
	if err != nil || len(machines) != nodesMax || machines[1] != (Machine{"node2", "10.99.0.12", "zone-b", false}) {
		t.Errorf("%v, %v", machines, err)
	}
	for _, test := range []struct {
		do   func(context.Context, string) error
		name string
		want string
	}{
		{outside.PowerOff, "node1", "off node1: node1 is off"},
		{outside.PowerOff, "node10", `off node10: no such machine: "node10"; there are node1 to node9`},
	} {
		if err := test.do(t.Context(), test.name); err == nil || err.Error() != test.want {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
	if _, err := outside.ask(t.Context(), http.MethodGet, "/nowhere", nil); err == nil {
		t.Error("an unknown path is answered")
	}
	// Loaded images are kept for machines that start later.
	archive := filepath.Join(t.TempDir(), "i.tar")
	if err := os.WriteFile(archive, []byte("image"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := outside.LoadImage(t.Context(), archive); err != nil || !exists(filepath.Join(f.loaded(), "i.tar")) {
		t.Errorf("loading: %v", err)
	}
}
