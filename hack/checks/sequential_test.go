package checks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sequentialList names the packages that make test runs without the race detector.
const sequentialList = "hack/scripts/sequential.txt"

// starters are packages that start goroutines, or call back from some: prefixes of import paths.
var starters = []string{
	"net", "net/", "os/exec", "os/signal", "testing/synctest", "golang.org/x/sync/", "google.golang.org/grpc", "google.golang.org/grpc/",
	"sigs.k8s.io/controller-runtime/", "k8s.io/client-go/", "go.etcd.io/etcd/", "github.com/valyala/fasthttp", "github.com/prometheus/client_golang/",
}

// harmless are packages below starters that hold values and functions only.
var harmless = []string{"net/netip", "net/url", "google.golang.org/grpc/codes", "google.golang.org/grpc/status"}

// startingCalls are the names of functions and methods that run a function in another goroutine.
var startingCalls = []string{"Go", "Parallel", "RunParallel", "AfterFunc"}

// goroutinesOf returns where a file starts a goroutine, or imports what does; nothing: it has one.
func goroutinesOf(set *token.FileSet, file *ast.File) (found []string) {
	for _, s := range file.Imports {
		name, err := strconv.Unquote(s.Path.Value)
		starts := func(p string) bool { return name == p || strings.HasSuffix(p, "/") && strings.HasPrefix(name, p) }
		if err != nil || slices.ContainsFunc(starters, starts) && !slices.Contains(harmless, name) {
			found = append(found, set.Position(s.Pos()).String()+" imports "+name)
		}
	}
	return append(found, startsIn(set, file)...)
}

// startsIn returns where a part of a file starts a goroutine by itself.
func startsIn(set *token.FileSet, part ast.Node) (found []string) {
	ast.Inspect(part, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, set.Position(n.Pos()).String()+" starts a goroutine")
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(startingCalls, f.Sel.Name) {
				found = append(found, set.Position(n.Pos()).String()+" calls "+f.Sel.Name)
			}
		}
		return true
	})
	return found
}

// packageFiles are the parsed files of a folder.
type packageFiles struct{ code, tests []*ast.File }

// TestSequentialPackages: the packages of sequentialList have one goroutine when they are tested. Neither they, nor their
// tests, nor any package of the module that one of these imports starts another, or imports a library that does. So the race detector
// could find nothing there, and running them without it loses no proof. With the detector the compiler checks uses of package unsafe,
// too: who uses it is not for the list.
func TestSequentialPackages(t *testing.T) {
	set := token.NewFileSet()
	folders := map[string]*packageFiles{}
	for _, file := range goFiles(t) {
		parsed, err := parser.ParseFile(set, filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		f := folders[path.Dir(file)]
		if f == nil {
			f = &packageFiles{}
			folders[path.Dir(file)] = f
		}
		if strings.HasSuffix(file, "_test.go") {
			f.tests = append(f.tests, parsed)
		} else {
			f.code = append(f.code, parsed)
		}
	}
	text, err := os.ReadFile(filepath.Join(root(t), sequentialList))
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(string(text))
	if !slices.IsSorted(listed) || len(slices.Compact(slices.Clone(listed))) != len(listed) {
		t.Errorf("%s is not sorted, or names a package twice", sequentialList)
	}
	for _, folder := range listed {
		if folders[folder] == nil || len(folders[folder].tests) == 0 {
			t.Errorf("%s names %s, which has no tests", sequentialList, folder)
			continue
		}
		if found := reached(set, folders, folder); len(found) > 0 {
			t.Errorf("%s is not for %s, as\n\t%s", sequentialList, folder, strings.Join(found, "\n\t"))
		}
	}
}

// reached returns what goroutinesOf finds in a package, its tests, and all packages of the module that those import.
func reached(set *token.FileSet, folders map[string]*packageFiles, folder string) (found []string) {
	seen := map[string]bool{}
	var visit func(folder string, files []*ast.File)
	visit = func(folder string, files []*ast.File) {
		for _, file := range files {
			found = append(found, goroutinesOf(set, file)...)
			for _, s := range file.Imports {
				name := strings.TrimPrefix(strings.Trim(s.Path.Value, `"`), module)
				if next := folders[name]; next != nil && name != folder && !seen[name] {
					seen[name] = true
					visit(name, next.code)
				}
			}
		}
	}
	own := slices.Concat(folders[folder].code, folders[folder].tests)
	for _, file := range own {
		if slices.ContainsFunc(file.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"unsafe"` }) {
			found = append(found, set.Position(file.Pos()).String()+" uses package unsafe")
		}
	}
	visit(folder, own)
	return found
}

// TestOperatorsHaveOneGoroutine: what package controller and its tests import of the operator starts no goroutine, and no test of the
// package does but those with a manager, which make test runs under the race detector. Tests that run at a time have an operator each.
func TestOperatorsHaveOneGoroutine(t *testing.T) {
	const folder = "operator/controller"
	set := token.NewFileSet()
	files := map[string][]*ast.File{} // of package controller with its tests, and of others without
	for _, file := range goFiles(t) {
		in := path.Dir(file)
		if !strings.HasPrefix(file, "operator/") || in != folder && strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(set, filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[in] = append(files[in], parsed)
	}
	managers, seen := 0, map[string]bool{}
	var visit func(in string)
	visit = func(in string) {
		seen[in] = true
		for _, file := range files[in] {
			for _, d := range file.Decls {
				found := slices.DeleteFunc(startsIn(set, d), func(place string) bool { return strings.HasSuffix(place, " calls Parallel") })
				if f, ok := d.(*ast.FuncDecl); ok && in == folder && strings.HasPrefix(f.Name.Name, "TestManager") {
					managers += len(found)
				} else if len(found) > 0 {
					t.Errorf("without a manager\n\t%s", strings.Join(found, "\n\t"))
				}
			}
			for _, s := range file.Imports {
				if next := strings.TrimPrefix(strings.Trim(s.Path.Value, `"`), module); files[next] != nil && !seen[next] {
					visit(next)
				}
			}
		}
	}
	visit(folder)
	if managers == 0 || len(seen) < 10 {
		t.Errorf("%d goroutines of managers, packages %v", managers, seen)
	}
}

// TestGoroutinesAreSeen holds goroutinesOf to what it is to find.
func TestGoroutinesAreSeen(t *testing.T) {
	for source, want := range map[string]int{
		"package p\nimport \"net/url\"\nfunc f() { g() }":                    0,
		"package p\nimport \"net/http\"":                                     1,
		"package p\nimport \"net\"":                                          1,
		"package p\nimport \"sigs.k8s.io/controller-runtime/pkg/client\"":    1,
		"package p\nfunc f() { go g() }":                                     1,
		"package p\nfunc f() { func() { go func() {}() }() }":                1,
		"package p\nfunc TestF(t *testing.T) { t.Parallel() }":               1,
		"package p\nfunc f(w *sync.WaitGroup) { w.Go(g); w.Wait() }":         1,
		"package p\nfunc f() { time.AfterFunc(0, g); context.AfterFunc() }":  2,
		"package p\nfunc BenchmarkF(b *testing.B) { b.RunParallel(nil) }":    1,
		"package p\nimport \"golang.org/x/sync/errgroup\"\nvar g errgroup.G": 1,
	} {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "p.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if found := goroutinesOf(set, file); len(found) != want {
			t.Errorf("found %q in %q, want %d", found, source, want)
		}
	}
}

// TestStagesRunTests: where a stage of test.sh runs some tests of a package only, there are such tests, which a race detector leaves out
// unless the stage has one. Otherwise go test would run none, and be content.
func TestStagesRunTests(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root(t), "hack/scripts/test.sh"))
	if err != nil {
		t.Fatal(err)
	}
	stages := regexp.MustCompile(`(?m)^stage (.*)-run '(\w+)'((?: \./[a-z0-9/]+)+)`).FindAllStringSubmatch(string(script), -1)
	if len(stages) < 2 {
		t.Fatalf("found %q", stages)
	}
	for _, s := range stages {
		raced, named := strings.Contains(s[1], " -race "), regexp.MustCompile(`(?m)^func \w*`+s[2]+`\w*\(`)
		for _, folder := range strings.Fields(s[3]) {
			files, err := filepath.Glob(filepath.Join(root(t), folder, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(files, func(file string) bool {
				source, err := os.ReadFile(file)
				return err == nil && strings.HasPrefix(string(source), "//go:build !race\n") != raced && named.Match(source)
			}) {
				t.Errorf("%s has no file that has a test for -run %s, and the build constraint !race unless it is run with -race", folder, s[2])
			}
		}
	}
}
