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

// direction says what of the module, and of the world, a folder's packages may
// import. The longest matching folder counts. Test files may import more: they
// join roles to test them.
type direction struct {
	folder string
	own    []string // prefixes of the module's folders; the folder itself is always allowed
	banned []string // prefixes of any import path
	reason string
}

var directions = []direction{
	{"api/series", nil, []string{"."}, "the border values use the standard library only"},
	{"api/scan", []string{"api/series"}, []string{"."}, "the border values use the standard library only"},
	{"api", []string{"api", "proto"}, nil, "the API knows no role"},
	{"api/shardmap", nil, []string{"."}, "the map and its arithmetic use the standard library only"},
	{"api/shardmap/memstore", []string{"api/shardmap"}, []string{"."}, "the twin in memory uses the standard library only"},
	{"api/shardmap/storetest", []string{"api/shardmap"}, []string{"."}, "the contract knows no implementation"},
	{"api/shardmap/etcdstore", []string{"api/shardmap"}, nil, "a store knows the map only"},
	{"api/shardmap/etcdserver", nil, nil, "the embedded etcd knows no map"},
	{"proto", nil, nil, "generated code knows nothing"},
	{"router", []string{"api", "proto"}, nil, "roles never import each other"},
	{"operator", []string{"api", "proto"}, nil, "roles never import each other"},
	{"node", []string{"api", "proto"}, nil, "roles never import each other"},
	{"node/replica", []string{"api/series", "api/shardmap"}, []string{"os", "net", "time", "sync", "google.golang.org/grpc", "go.etcd.io/etcd"},
		"replication is step functions: no clock, no I/O, no goroutine"},
	{"node/storage", []string{"api/series", "api/scan"}, []string{"google.golang.org/grpc", "go.etcd.io", "github.com/prometheus", "net", "net/http"},
		"storage sees no network, no placement and no metrics library"},
	{"node/storage/vfs", nil, nil, "the file-system seam is at the bottom"},
	{"node/storage/failpoint", nil, nil, "failpoints are at the bottom"},
	{"node/storage/codec", []string{"api/series"}, []string{"os", "time"}, "codecs are pure"},
	{"node/storage/codec/internal", []string{"api/series", "node/storage/codec"}, nil, "generators of the codec's kernels write files"},
	{"node/storage/page", []string{"api/series", "node/storage/codec"}, []string{"os", "time"}, "hot pages are memory only"},
	{"node/storage/pagelog", []string{"node/storage/vfs", "node/storage/failpoint"}, nil, "the page log stores bytes"},
	{"node/storage/wal", []string{"node/storage/vfs", "node/storage/failpoint"}, nil, "the log stores bytes"},
	{"node/storage/segment", []string{"api/series", "node/storage/vfs", "node/storage/codec", "node/storage/failpoint"}, nil, "segments know no engine"},
	{"node/storage/index", []string{"api/series", "api/scan", "node/storage/vfs", "node/storage/failpoint"}, nil, "the index knows no engine"},
	{"router/parse", []string{"api/series"}, []string{"net/http", "os"}, "parsers are pure"},
	{"router/split", []string{"api/series", "router/parse"}, []string{"net/http", "os"}, "splitting is pure"},
	{"router/ingest", []string{"api/series", "router/parse", "router/split"}, nil, "ingest knows no query"},
	{"router/placement", []string{"api/shardmap"}, []string{"go.etcd.io", "net", "net/http"}, "placement sees the store through its interface"},
	{"router/query", []string{"api/series", "api/scan", "router/query"}, nil, "queries know no ingest"},
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
	if own, ok := strings.CutPrefix(path, module); ok {
		return under(own, d.folder) || slices.ContainsFunc(d.own, func(prefix string) bool { return under(own, prefix) })
	}
	first, _, _ := strings.Cut(path, "/")
	outside := strings.Contains(first, ".")
	for _, banned := range d.banned {
		if banned == "." && outside && !strings.HasSuffix(folder, "test") {
			return false
		}
		if banned != "." && path == banned || strings.HasPrefix(path, banned+"/") && banned != "net" {
			return false
		}
	}
	return true
}
