package checks

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	fileLinesMax     = 500
	functionLinesMax = 70
	rootFilesMax     = 6
)

// longer lists the files and functions that are longer than the rule, with why.
var longer = map[string]string{}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// goFiles returns the paths, from the root, of all Go files that git knows or does
// not ignore.
func goFiles(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var files []string
	for line := range strings.Lines(string(out)) {
		if _, err := os.Stat(filepath.Join(cmd.Dir, strings.TrimSpace(line))); err == nil {
			files = append(files, strings.TrimSpace(line))
		}
	}
	if len(files) < 50 {
		t.Fatalf("found only %d Go files", len(files))
	}
	return files
}

func generated(source []byte) bool {
	return bytes.Contains(source[:min(len(source), 400)], []byte("Code generated"))
}

func TestLengths(t *testing.T) {
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		if generated(source) {
			continue
		}
		if n := bytes.Count(source, []byte{'\n'}); n > fileLinesMax && longer[file] == "" {
			t.Errorf("%s has %d lines, more than %d: split it by its nouns", file, n, fileLinesMax)
		}
		checkFunctions(t, file, source)
	}
}

func checkFunctions(t *testing.T, file string, source []byte) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := file + ":" + f.Name.Name
		n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1
		if n > functionLinesMax && longer[name] == "" {
			t.Errorf("%s has %d lines, more than %d", name, n, functionLinesMax)
		}
	}
}

// TestRootIsSmall keeps the root to the commands and where roles are joined; all else has a room.
func TestRootIsSmall(t *testing.T) {
	n := 0
	for _, file := range goFiles(t) {
		if !strings.Contains(file, "/") {
			n++
		}
	}
	if n > rootFilesMax {
		t.Errorf("the root has %d Go files, more than %d: ARCHITECTURE.md lists the packages", n, rootFilesMax)
	}
}

func TestPackagesHaveDocs(t *testing.T) {
	documented := map[string]bool{}
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(file)
		documented[dir] = documented[dir] || parsed.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no doc comment", dir)
		}
		switch filepath.Base(dir) {
		case "util", "utils", "common", "helpers", "misc":
			t.Errorf("package %s: name it by what it holds", dir)
		}
	}
}

// unwanted is what no file of the project may contain.
var unwanted = []struct {
	pattern *regexp.Regexp
	reason  string
}{
	{regexp.MustCompile(`(?i)\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`), "finish it, or file an issue"},
	{regexp.MustCompile(`(://|@)(proxy|sum|deb|registry|repo\d?|files|static|index)\.[a-z0-9.-]+\.(org|io|com)`), "no registry's host is named here"},
	{regexp.MustCompile(`(^|[^a-z.])/(ro` + `ot|wo` + `rk)/`), "no path of one machine"},
}

func TestUnwantedText(t *testing.T) {
	for _, file := range goFiles(t) {
		source, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(source), "\n") {
			for _, u := range unwanted {
				if u.pattern.MatchString(line) {
					t.Errorf("%s:%d: %s: %s", file, i+1, strings.TrimSpace(line), u.reason)
				}
			}
		}
	}
}
