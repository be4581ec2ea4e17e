package checks

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// knotFilesMax bounds the files of a package of which each reaches each other by calls. Who reads one of them has to know all: calls should
// run one way, from a file to those that know less.
const knotFilesMax = 8

// knotted are the packages with a larger knot, with its number of files. A number only falls; a package whose knot is small
// enough goes from the list.
var knotted = map[string]int{
	"e2e/sim":               9, // one event of a simulated process leads to the next
	"router/query/influxql": 9, // a subquery is a selection, whose calls take selections
}

// goPackage is what go list tells of a package.
type goPackage struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
	ImportMap               map[string]string
	Standard, DepOnly       bool
}

// listPackages returns the packages of the module and, with the files of their compiled types, all that they import.
func listPackages(t *testing.T) map[string]*goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles,ImportMap,Standard,DepOnly", "./...")
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	packages := map[string]*goPackage{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &goPackage{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// callsOf returns which files of a package call, or name, functions and methods that other files of it declare. Methods of
// interfaces are left out: which file has the code is not known.
func callsOf(t *testing.T, p *goPackage, packages map[string]*goPackage) map[string][]string {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	open := func(path string) (io.ReadCloser, error) {
		if to, ok := p.ImportMap[path]; ok {
			path = to
		}
		return os.Open(packages[path].Export)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", open)}
	of, err := config.Check(p.ImportPath, set, files, info)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string][]string{}
	for id, object := range info.Uses {
		f, ok := object.(*types.Func)
		if !ok || f.Pkg() != of {
			continue
		}
		if to := f.Signature().Recv(); to != nil && types.IsInterface(to.Type()) {
			continue
		}
		from, to := filepath.Base(set.Position(id.Pos()).Filename), filepath.Base(set.Position(f.Origin().Pos()).Filename)
		if from != to && !slices.Contains(calls[from], to) {
			calls[from] = append(calls[from], to)
		}
	}
	return calls
}

// knotOf returns the most files of which each reaches each other by calls.
func knotOf(calls map[string][]string) (most []string) {
	reached := map[string]map[string]bool{}
	for from := range calls {
		seen := map[string]bool{}
		for next := []string{from}; len(next) > 0; {
			last := next[len(next)-1]
			next = next[:len(next)-1]
			for _, to := range calls[last] {
				if !seen[to] {
					seen[to] = true
					next = append(next, to)
				}
			}
		}
		reached[from] = seen
	}
	for _, from := range slices.Sorted(maps.Keys(reached)) {
		var knot []string
		for to := range reached[from] {
			if reached[to][from] {
				knot = append(knot, to)
			}
		}
		if len(knot) > len(most) {
			most = slices.Sorted(slices.Values(knot))
		}
	}
	return most
}

// TestKnots: in no package do many files call each other in one knot.
func TestKnots(t *testing.T) {
	packages := listPackages(t)
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		p, name := packages[path], strings.TrimPrefix(path, module)
		if p.Standard || p.DepOnly || len(p.GoFiles) <= knotFilesMax {
			continue
		}
		knot, most := knotOf(callsOf(t, p, packages)), max(knotFilesMax, knotted[name])
		if len(knot) > most {
			t.Errorf("%d files of %s call each other in one knot, more than %d: %s", len(knot), name, most, strings.Join(knot, " "))
		}
		if known := knotted[name]; known > 0 && len(knot) < known {
			t.Errorf("the knot of %s has %d files only, not %d: say so in knotted", name, len(knot), known)
		}
	}
	for name := range knotted {
		if packages[module+name] == nil {
			t.Errorf("there is no package %s", name)
		}
	}
}

// TestKnotsAreFound: the test above sees a knot, and passes calls that run one way.
func TestKnotsAreFound(t *testing.T) {
	calls := map[string][]string{"a": {"b"}, "b": {"c", "d"}, "c": {"a", "e"}, "d": {"e"}, "e": {"f"}, "f": {"e"}}
	if knot := knotOf(calls); !slices.Equal(knot, []string{"a", "b", "c"}) {
		t.Errorf("the knot is %v", knot)
	}
	delete(calls, "f")
	calls["c"] = nil
	if knot := knotOf(calls); len(knot) != 0 {
		t.Errorf("there is a knot %v", knot)
	}
}
