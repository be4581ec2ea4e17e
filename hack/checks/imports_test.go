package checks

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tickmesh/tickmesh/"

// direction describes what of the module, and of the world, a folder's packages may
// import. The longest matching folder counts. Test files may import more: they
// join roles to test them.
type direction struct {
	folder string
	own    []string // prefixes of the module's folders; the folder itself is always allowed
	banned []string // prefixes of any import path; they win
	reason string
}

// outsideKubernetes is what a package that only describes objects of Kubernetes has no
// use for.
var outsideKubernetes = []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go", "google.golang.org/grpc", "go.etcd.io"}

var directions = []direction{
	{"api/series", nil, []string{"."}, "the border values use the standard library only"},
	{"api/scan", []string{"api/exactsum", "api/series"}, []string{"."}, "the border values use the standard library only"},
	{"api/exactsum", nil, []string{".", "os", "net", "time"}, "arithmetic"},
	{"api", []string{"api", "proto"}, nil, "the API knows no role"},
	{"api/wire", []string{"api/exactsum", "api/series", "api/scan", "api/shardmap", "proto"}, nil, "messages of border values and errors; who sends them is no matter"},
	{"api/certificate", nil, []string{".", "os", "net"}, "certificates are values; the clock is an argument, files are somebody else's"},
	{"api/handshake", []string{"api/certificate", "api/wire", "proto"}, nil, "who talks to whom, whatever they say afterwards"},
	{"api/backoff", nil, []string{"."}, "the wait knows neither clock nor what it is for"},
	{"api/deadline", nil, []string{"."}, "the time allowed knows neither clock nor what it is for"},
	{"api/limitedlog", nil, []string{".", "os", "net"}, "log lines that clients cause, whoever writes them"},
	{"api/loopback", nil, []string{"."}, "addresses of this machine, and the standard library only"},
	{"api/transport", []string{"api/deadline", "api/limitedlog", "api/loopback"}, nil, "connections know no messages"},
	{"api/oidc", []string{"api/loopback"}, []string{"os", "google.golang.org/grpc"}, "tokens of issuers, whatever users and rights there are"},
	{"api/oidc/oidctest", nil, []string{"."}, "an issuer of tests uses the standard library only"},
	{"api/guard", nil, []string{"."}, "bounds of text know no language and use the standard library only"},
	{"api/jsontext", nil, []string{".", "os", "net"}, "JSON strings in buffers, whoever sends them"},
	{"api/display", nil, []string{"."}, "it writes what it is given, and uses the standard library only"},
	{"api/access", []string{"api/audit"}, []string{"os"}, "rights know no files and no users"},
	{"api/auth", []string{"api/access", "api/audit", "api/limitedlog", "api/oidc", "api/processor", "api/rulefile", "api/secret", "api/series", "api/settings", "api/token"}, []string{"google.golang.org/grpc"}, "who may do what, from a file"},
	{"api/durable", nil, []string{".", "net", "net/http"}, "files that are replaced as a whole, whatever stands in them"},
	{"api/kept", []string{"api/durable"}, []string{"net", "net/http"}, "named values in a file or from a watch, whatever they mean"},
	{"api/secret", nil, []string{".", "os", "net"}, "secrets of programs are texts, whoever keeps or shows them"},
	{"api/token", []string{"api/access", "api/kept", "api/secret", "api/series", "api/shardmap"}, []string{"net", "net/http", "google.golang.org/grpc", "go.etcd.io"}, "tokens that are made, whoever makes and shows them"},
	{"api/process", []string{"api/access", "api/audit", "api/endpoint", "api/http1", "api/settings", "api/shardmap", "api/tenancy", "api/processor"}, []string{"google.golang.org/grpc", "go.etcd.io"}, "what every process has, whatever its role"},
	{"api/cli", []string{"api/access", "api/backoff", "api/cli", "api/client", "api/display", "api/parse", "api/process", "api/scan", "api/series", "api/settings", "api/transport"}, []string{"google.golang.org/grpc", "go.etcd.io", "net/http"}, "commands are clients of the public API"},
	{"api/cli/archive", []string{"api"}, nil, "backups as objects, whoever makes them"},
	{"api/cli/rescue", []string{"api", "proto"}, nil, "the one command that asks nodes and the placement store"},
	{"api/certificate/command", []string{"api/certificate", "api/display", "api/durable", "api/settings"}, []string{"google.golang.org/grpc", "go.etcd.io"}, "makes files of certificates, whoever uses them"},
	{"api/certificate/ephemeral", []string{"api/certificate", "api/durable", "api/handshake", "api/settings", "api/shardmap/etcdserver"}, []string{"net"}, "certificates of one process, whatever its roles do with them"},
	{"api/auth/command", []string{"api/auth", "api/secret"}, nil, "makes what the file of users has"},
	{"api/shardmap/etcdserver/command", []string{"api/handshake", "api/settings", "api/shardmap/etcdserver"}, nil, "a member of the placement store as a process"},
	{"operator/drain/command", []string{"api/settings", "operator/drain", "operator/envoy"}, nil, "drains an Envoy as a process"},
	{"api/settings", []string{"api/certificate", "api/handshake", "api/loopback", "api/origin", "api/quantity", "api/rulefile", "api/scan", "api/shardmap", "api/transport"}, []string{"net/http"}, "settings know no role, and start nothing"},
	{"api/parse", []string{"api/scan", "api/series"}, []string{"net/http", "os"}, "parsers are pure"},
	{"api/cli/interchange", []string{"api/parse", "api/scan", "api/series"}, []string{"net", "os", "google.golang.org/grpc"}, "text to samples and back, over readers and writers"},
	{"api/cli/migrate", []string{"api/backoff", "api/client", "api/durable", "api/loopback", "api/parse", "api/scan", "api/series"}, []string{"google.golang.org/grpc", "go.etcd.io"}, "other databases by their public API, the cluster by its own"},
	{"api/client", []string{"api/backoff", "api/loopback", "api/series", "api/scan", "api/transport", "api/wire", "proto/tickmesh/v1"}, nil, "clients speak the public API only"},
	{"api/shardmap", nil, []string{"."}, "the map and its arithmetic use the standard library only"},
	{"api/shardmap/memstore", []string{"api/shardmap"}, []string{"."}, "the twin in memory uses the standard library only"},
	{"api/shardmap/storetest", []string{"api/shardmap"}, []string{"."}, "the contract knows no implementation"},
	{"api/shardmap/etcdstore", []string{"api/backoff", "api/shardmap"}, nil, "a store knows the map only"},
	{"api/shardmap/etcdserver", []string{"api/certificate"}, nil, "the embedded etcd knows no map"},
	{"api/v1alpha1", nil, outsideKubernetes, "the resources are types: whoever reads them needs no client"},
	{"api/v1alpha1/schematest", []string{"api/v1alpha1"}, nil, "the API server's own checks of the definitions"},
	{"charts", nil, []string{"."}, "files of the chart"},
	{"proto", nil, nil, "generated code knows nothing"},
	{"router", []string{"api", "proto"}, nil, "roles never import each other"},
	{"operator", []string{"api", "proto", "charts"}, nil, "roles never import each other"},
	{"operator/envoy", nil, append([]string{".", "os", "net/http", "time"}, outsideKubernetes...), "a configuration is a pure function of its options"},
	{"operator/build", []string{"api/certificate", "api/v1alpha1", "operator/envoy", "operator/pki"}, append([]string{"os", "net", "net/http", "time", "math/rand", "math/rand/v2"}, outsideKubernetes...),
		"objects are pure functions of the cluster and of facts: no client, no clock, no randomness"},
	{"operator/ownership", []string{"api/v1alpha1", "operator/build"}, append([]string{"os", "net/http"}, outsideKubernetes...), "decisions are pure functions of facts"},
	{"operator/upgrade", nil, append([]string{"os", "net/http"}, outsideKubernetes...), "decisions are pure functions of facts"},
	{"operator/pki", []string{"api/certificate", "api/v1alpha1"}, append([]string{"os", "net/http"}, outsideKubernetes...), "certificates are values; the clock and randomness are arguments"},
	{"operator/rollout", []string{"api/shardmap", "api/v1alpha1"}, append([]string{"os", "net/http"}, outsideKubernetes...), "decisions are pure functions of facts"},
	{"operator/calendar", nil, append([]string{"os", "net/http"}, outsideKubernetes...), "times are functions of schedules; the clock is an argument"},
	{"operator/bootstrap", []string{"api/v1alpha1"}, append([]string{"os", "net/http"}, outsideKubernetes...), "decisions are pure functions of facts"},
	{"operator/silence", []string{"api/v1alpha1", "operator/build", "operator/envoy", "operator/inventory"}, nil, "who looks at machines each second decides nothing else"},
	{"operator/hibernation", nil, append([]string{"os", "net/http"}, outsideKubernetes...), "decisions are pure functions of facts"},
	{"operator/maintenance", []string{"api/v1alpha1", "operator/calendar"}, append([]string{"os", "net/http"}, outsideKubernetes...), "decisions are pure functions of facts"},
	{"operator/backup", []string{"api/v1alpha1", "operator/calendar"}, append([]string{"os", "net/http"}, outsideKubernetes...), "decisions are pure functions of facts"},
	{"operator/mesh", []string{"api"}, []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go"}, "the view of a running cluster knows no Kubernetes"},
	{"operator/etcd", []string{"api/shardmap", "api/v1alpha1"}, []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go"}, "membership of etcd knows no Kubernetes"},
	{"operator/controller", []string{"api/v1alpha1", "operator/build", "operator/reconcile"}, []string{"go.etcd.io", "google.golang.org/grpc"},
		"controllers watch and call reconcile; what a cluster is, they do not know"},
	{"operator/plugin", []string{"api/client", "api/display", "api/v1alpha1", "operator/build", "operator/upgrade"}, []string{"go.etcd.io"},
		"the plugin asks routers and Kubernetes, and changes resources only"},
	{"operator/inventory", []string{"api/v1alpha1", "operator/build", "operator/ownership"}, []string{"os", "net/http", "google.golang.org/grpc", "go.etcd.io"}, "what Kubernetes has of a cluster is read; it decides and changes nothing"},
	{"operator/objects", []string{"api/v1alpha1", "operator/build", "operator/inventory", "operator/ownership"}, []string{"os", "net/http", "google.golang.org/grpc", "go.etcd.io"}, "objects are changed one by one; what they are to be is somebody else's decision"},
	{"operator/report", []string{"api/client", "api/shardmap", "api/v1alpha1", "operator/bootstrap", "operator/build", "operator/etcd", "operator/hibernation", "operator/inventory", "operator/maintenance", "operator/ownership", "operator/rollout", "operator/upgrade"}, []string{"os", "net/http", "sigs.k8s.io/controller-runtime", "k8s.io/client-go"}, "what is said of a cluster is a pure function of what a pass has seen and decided"},
	{"operator/reconcile", []string{"api", "operator/bootstrap", "operator/build", "operator/envoy", "operator/hibernation", "operator/inventory", "operator/maintenance", "operator/objects", "operator/report", "operator/pki", "operator/rollout", "operator/mesh", "operator/etcd", "operator/backup", "operator/ownership", "operator/upgrade"}, nil,
		"the parts of a cluster and their order; controllers call them, they call no controller"},
	{"node", []string{"api/series", "api/scan", "api/shardmap", "api/tenancy"}, []string{module + "node/rpc", module + "node/service", module + "node/agent", "google.golang.org/grpc", "go.etcd.io/etcd"},
		"a node sees its peers, routers and the placement store through interfaces"},
	{"node/member", []string{"api", "node", "proto"}, []string{"go.etcd.io", "github.com/spf13"}, "a node in its cluster knows the store by its interface, and no flags"},
	{"node/command", []string{"api", "node"}, []string{"google.golang.org/grpc", "go.etcd.io"}, "a node as a process"},
	{"node/rpc", []string{"api/backoff", "api/budget", "api/deadline", "api/series", "api/scan", "api/wire", "api/handshake", "api/transport", "proto", "api/processor"}, []string{"go.etcd.io"}, "the node service sees a node through its interface"},
	{"node/service", []string{"api/series", "api/scan", "api/shardmap", "api/wire", "api/handshake", "proto", "node", "api/processor"}, []string{"google.golang.org/grpc", "go.etcd.io/etcd"},
		"joins a node to the interface of the node service; nobody connects here"},
	{"node/agent", []string{"api/backoff", "api/durable", "api/shardmap", "node"}, []string{"google.golang.org/grpc", "go.etcd.io"}, "the placement store is an interface"},
	{"node/clocks", nil, []string{".", "os", "net"}, "clocks are compared, whoever tells them and cuts by them"},
	{"node/limits", []string{"api/series", "api/tenancy"}, []string{"os", "net", "google.golang.org/grpc", "go.etcd.io"}, "limits read batches; they know neither logs nor groups"},
	{"node/commit", []string{"api/series", "api/shardmap", "node/replica", "node/storage"}, []string{"os", "net", "time", "google.golang.org/grpc", "go.etcd.io"}, "what the node does next is a function of what it is told: no clock, no I/O, no goroutine"},
	{"node/transfer", []string{"node/commit", "node/replica", "node/storage"}, []string{module + "node/storage/wal", "os", "net", "google.golang.org/grpc", "go.etcd.io"}, "transfer decides nothing about groups; it sees the loop and other nodes through interfaces"},
	{"node/repair", []string{"api/backoff", "api/series", "api/shardmap", "node/replica", "node/storage"}, []string{module + "node/storage/wal", "os", "net", "google.golang.org/grpc", "go.etcd.io"}, "repair knows no log; it sees other nodes through an interface"},
	{"node/replica/envelope", nil, []string{"os", "net", "time", "sync", "google.golang.org/grpc", "go.etcd.io/etcd"}, "messages as bytes, whatever they mean"},
	{"node/replica", []string{"api/series", "api/shardmap"}, []string{"os", "net", "time", "sync", "google.golang.org/grpc", "go.etcd.io/etcd"},
		"replication is step functions: no clock, no I/O, no goroutine"},
	{"node/storage", []string{"api/backoff", "api/guard", "api/series", "api/scan", "api/processor"}, []string{"google.golang.org/grpc", "go.etcd.io", "github.com/prometheus", "net", "net/http"},
		"storage sees no network, no placement and no metrics library"},
	{"node/storage/vfs", nil, nil, "the file-system seam is at the bottom"},
	{"node/storage/failpoint", nil, nil, "failpoints are at the bottom"},
	{"node/storage/codec", []string{"api/series"}, []string{"os", "time"}, "codecs are pure"},
	{"node/storage/codec/internal", []string{"api/series", "node/storage/codec"}, nil, "generators of the codec's kernels write files"},
	{"node/storage/page", []string{"api/series", "node/storage/codec"}, []string{"os", "time"}, "hot pages are memory only"},
	{"node/storage/pagelog", []string{"node/storage/vfs", "node/storage/failpoint"}, nil, "the page log stores bytes"},
	{"node/storage/wal", []string{"node/storage/vfs", "node/storage/failpoint"}, nil, "the log stores bytes"},
	{"node/storage/segment", []string{"api/scan", "api/series", "node/storage/vfs", "node/storage/codec", "node/storage/failpoint"}, nil, "segments know no engine"},
	{"node/storage/index", []string{"api/guard", "api/series", "api/scan", "node/storage/vfs", "node/storage/failpoint"}, nil, "the index knows no engine"},
	{"node/storage/entry", []string{"api/series"}, []string{".", "os", "time"}, "entries are bytes, whatever keeps or applies them"},
	{"node/storage/shardfile", []string{"node/storage/vfs"}, []string{"os", "time"}, "forms of shards are bytes, whatever they mean"},
	{"node/storage/dedup", []string{"api/series", "node/storage/shardfile", "node/storage/vfs"}, []string{"os", "time"}, "batch ids are functions of entries: no shard, no clock"},
	{"node/storage/exemplar", []string{"api/series"}, []string{".", "os", "time"}, "rings are functions of entries: no shard, no clock, no file"},
	{"node/storage/retention", []string{"api/series", "node/storage/segment"}, []string{"os", "time"}, "cuts are numbers that entries bring: no clock, no file"},
	{"node/storage/manifest", []string{"api/series", "node/storage/codec", "node/storage/index", "node/storage/pagelog", "node/storage/retention", "node/storage/segment", "node/storage/vfs"}, []string{"os", "time"}, "which files count, whoever writes and reads them"},
	{"node/storage/read", []string{"api/processor", "api/scan", "api/series", "node/storage/codec", "node/storage/index", "node/storage/manifest", "node/storage/page", "node/storage/pagelog", "node/storage/segment", "node/storage/vfs"}, []string{"os"}, "reads see shards through an interface and change nothing"},
	{"node/storage/flush", []string{"node/storage/codec", "node/storage/manifest", "node/storage/pagelog", "node/storage/retention", "node/storage/segment", "node/storage/vfs"}, []string{"os", "time"}, "pages to segments, whoever publishes them"},
	{"node/storage/transfer", []string{"api/scan", "api/series", "node/storage/codec", "node/storage/dedup", "node/storage/entry", "node/storage/exemplar", "node/storage/shardfile", "node/storage/flush", "node/storage/index", "node/storage/manifest", "node/storage/pagelog", "node/storage/read", "node/storage/retention", "node/storage/segment", "node/storage/vfs"}, []string{"os", "time"}, "what moves in and out sees shards through an interface, and no engine"},
	{"node/storage/compact", []string{"api/backoff", "api/processor", "node/storage/manifest", "node/storage/retention", "node/storage/segment", "node/storage/vfs"}, []string{"os"}, "compactions see shards as cuts and keys"},
	{"router/split", []string{"api/series", "api/parse"}, []string{"net/http", "os"}, "splitting is pure"},
	{"api/http1", nil, []string{"net", "os", "github.com/valyala/fasthttp"}, "bytes of requests, whoever reads and parses them"},
	{"router/ingest/refusal", []string{"api/access", "api/budget", "api/origin", "api/parse", "api/series", "router/tenant"}, []string{"net", "github.com/valyala/fasthttp"}, "what an error is to a client, whatever protocol it speaks"},
	{"router/ingest", []string{"api/jsontext", "api/limitedlog", "api/audit", "api/backoff", "api/budget", "api/endpoint", "api/origin", "api/series", "api/access", "api/http1", "api/parse", "router/split", "router/tenant", "api/processor", "api/snappy"}, nil, "ingest knows no query"},
	{"router/cluster", []string{"api", "proto", "router/fanout", "router/placement", "router/continuous", "router/tenant"}, []string{"go.etcd.io", "net/http", "github.com/spf13"}, "the cluster as the API sees it knows no client"},
	{"router/server", []string{"api", "router"}, []string{"go.etcd.io", module + "router/cluster", module + "router/fanout", module + "router/command"}, "a server does not know what stands behind it"},
	{"router/command", []string{"api", "router"}, []string{"google.golang.org/grpc", "go.etcd.io"}, "a router as a process"},
	{"router/resolve", []string{"api/series"}, []string{".", "net", "os"}, "a cache of ids in memory"},
	{"router/fanout", []string{"api/backoff", "api/deadline", "api/series", "api/scan", "api/shardmap", "api/wire", "api/handshake", "api/transport", "proto", "router/resolve", "api/processor"}, []string{"go.etcd.io"},
		"knows nodes by their service and the store by its views; knows no client"},
	{"router/api", []string{"api/audit", "api/budget", "api/guard", "api/series", "api/scan", "api/transport", "api/wire", "proto/tickmesh/v1", "api/access", "api/token", "router/query/admission", "router/tenant", "api/processor"}, []string{"go.etcd.io"}, "the public API stands before interfaces and speaks to no node"},
	{"router/api/apitest", []string{"api/series", "api/scan", "api/wire", "proto/tickmesh/v1", "router/api"}, []string{"go.etcd.io"}, "a server over a slow and obvious storage"},
	{"router/placement", []string{"api/shardmap"}, []string{"go.etcd.io", "net", "net/http"}, "placement sees the store through its interface"},
	{"api/audit", nil, []string{"net", "net/http", "google.golang.org/grpc"}, "an audit log knows no protocol"},
	{"api/processor", []string{"api/controlgroup"}, append([]string{"github.com/prometheus", "github.com/spf13", "github.com/klauspost", "github.com/valyala", "net"}, outsideKubernetes...), "slots for work, whatever it is; of outside the kernel's calls only"},
	{"api/columnar", []string{"api/series"}, []string{"net", "os", "google.golang.org/grpc"}, "samples to a file's bytes, over a writer"},
	{"api/snappy", []string{"api/processor"}, []string{"net", "os"}, "a format of compression, and steps for who has others to serve"},
	{"api/budget", nil, []string{"net/http", "google.golang.org/grpc"}, "a bound of memory knows no protocol"},
	{"api/controlgroup", nil, []string{".", "os", "net"}, "files of the kernel, whoever wants limits of them"},
	{"api/memory", []string{"api/controlgroup"}, []string{"net", "net/http", "google.golang.org/grpc"}, "a division of memory knows none of its holders"},
	{"api/endpoint", nil, []string{"."}, "routing knows no role"},
	{"api/origin", nil, []string{"os"}, "which requests of browsers are taken, whatever serves them"},
	{"api/quantity", nil, []string{"."}, "sizes and times as people write them"},
	{"api/rulefile", []string{"api/quantity"}, []string{"net", "net/http", "google.golang.org/grpc"}, "files of rules know no rule"},
	{"api/tenancy", []string{"api/guard", "api/rulefile", "api/series"}, []string{"net", "net/http", "google.golang.org/grpc"}, "rules of databases as a value"},
	{"router/rules", []string{"api/access", "api/backoff", "api/loopback", "api/rulefile", "api/series", "api/shardmap"}, []string{"go.etcd.io", "google.golang.org/grpc", "github.com/spf13"}, "rules see queries, writes and elections through interfaces"},
	{"router/continuous", []string{"api/access", "api/backoff", "api/kept", "api/shardmap"}, []string{"go.etcd.io", "net/http", "google.golang.org/grpc"}, "continuous queries see queries and elections through interfaces"},
	{"router/tenant", []string{"api/scan", "api/series", "api/shardmap", "api/tenancy", "api/access", "api/kept"}, []string{"go.etcd.io", "net/http", "google.golang.org/grpc"}, "the directory of databases and what they use"},
	{"router/ui", []string{"api/audit", "api/endpoint", "api/series", "api/scan", "api/display", "proto/tickmesh/v1", "api/access", "router/query/admission", "api/processor"}, nil, "a page knows no storage"},
	{"router/query/admission", []string{"api/access", "api/budget", "api/series", "api/scan", "api/processor"}, []string{"net", "net/http", "os"}, "a book of queries, whatever their language"},
	{"router/query/dryrun", []string{"api/access", "api/series", "api/scan"}, []string{"net", "net/http", "os"}, "what a query reads, whatever its language"},
	{"router/query/metricsql", []string{"api/guard"}, []string{"net", "net/http", "os"}, "what MetricsQL has beyond PromQL, whoever evaluates that and stores samples"},
	{"router/query/shell", []string{"api/access", "api/series", "api/scan", "router/query/admission", "router/query/consistency"}, nil, "the shell knows no language"},
	{"router/metadata", []string{"api/kept", "api/shardmap"}, []string{"go.etcd.io", "net/http", "google.golang.org/grpc"}, "what metrics mean knows no language"},
	{"router/query/influxql/compile", []string{"router/query/influxql/load"}, []string{"os", "net"}, "statements are checked as text: nothing is read"},
	{"router/query", []string{"api/columnar", "api/jsontext", "api/endpoint", "api/exactsum", "api/guard", "api/series", "api/scan", "router/query", "router/continuous", "router/metadata", "api/access", "api/audit", "api/processor"}, nil, "queries know no ingest"},
}

func TestImportDirections(t *testing.T) {
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		folder := filepath.ToSlash(filepath.Dir(file))
		rule, ok := ruleOf(folder)
		if !ok {
			continue // the main package, e2e and hack join the roles
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if !allowed(rule, folder, path) {
				t.Errorf("%s imports %s: %s", file, path, rule.reason)
			}
		}
	}
}

func ruleOf(folder string) (direction, bool) {
	best := -1
	for i, d := range directions {
		if under(folder, d.folder) && (best < 0 || len(d.folder) > len(directions[best].folder)) {
			best = i
		}
	}
	if best < 0 {
		return direction{}, false
	}
	return directions[best], true
}

func under(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

func allowed(d direction, folder, path string) bool {
	own, ours := strings.CutPrefix(path, module)
	first, _, _ := strings.Cut(path, "/")
	outside := strings.Contains(first, ".") && !ours
	for _, banned := range d.banned {
		if banned == "." && outside && !strings.HasSuffix(folder, "test") {
			return false
		}
		if banned != "." && path == banned || strings.HasPrefix(path, banned+"/") && banned != "net" {
			return false
		}
	}
	return !ours || under(own, d.folder) || slices.ContainsFunc(d.own, func(prefix string) bool { return under(own, prefix) })
}

// The rules forbid what they are there for.
func TestDirectionsForbid(t *testing.T) {
	for _, test := range []struct {
		folder, path string
		allowed      bool
	}{
		{"node", module + "node/storage/wal", true},
		{"node", module + "node/rpc", false},
		{"node/service", module + "node/rpc", true},
		{"node/rpc", module + "node", false},
		{"router/fanout", module + "node/rpc", false},
		{"router/api", module + "proto/tickmesh/node/v1", false},
		{"router/api", module + "router/fanout", false},
		{"api/client", module + "api/handshake", false},
		{"router/resolve", "google.golang.org/grpc", false},
		{"router/resolve", "sync/atomic", true},
		{"node/agent", "go.etcd.io/etcd/client/v3", false},
		{"api/v1alpha1", "k8s.io/apimachinery/pkg/runtime", true},
		{"api/v1alpha1", "sigs.k8s.io/controller-runtime/pkg/scheme", false},
		{"operator/build", module + "operator/envoy", true},
		{"operator/build", module + "operator/reconcile", false},
		{"operator/build", "time", false},
	} {
		rule, ok := ruleOf(test.folder)
		if !ok || allowed(rule, test.folder, test.path) != test.allowed {
			t.Errorf("%s importing %s: allowed is not %v", test.folder, test.path, test.allowed)
		}
	}
}

// A folder that was renamed would leave its rule behind.
func TestDirectionsNameFolders(t *testing.T) {
	folders := map[string]bool{}
	for _, file := range goFiles(t) {
		for folder := filepath.ToSlash(filepath.Dir(file)); folder != "."; folder = filepath.ToSlash(filepath.Dir(folder)) {
			folders[folder] = true
		}
	}
	for _, d := range directions {
		if !folders[d.folder] {
			t.Errorf("there is no folder %s", d.folder)
		}
	}
}
