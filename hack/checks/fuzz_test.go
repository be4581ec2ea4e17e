package checks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decoderName is what functions that decode are called, exported or not.
var decoderName = regexp.MustCompile(`^([Pp]arse|[Dd]ecode|[Uu]nmarshal|[Rr]ead)(\p{Lu}.*)?$`)

// decoderInputs are the types of parameters that may hold what somebody else has written.
var decoderInputs = []string{"[]byte", "string", "io.Reader", "*bufio.Reader"}

// unfuzzed lists the packages that have functions by the names of decoders, and no fuzz target, with why. Who adds a
// decoder to one of them has to look whether the reason still holds.
var unfuzzed = map[string]string{
	"api/auth/command":        "readPassword takes a line of bounded length from whoever runs the command",
	"api/certificate/command": "read opens the files of certificate.DecodePair, which is fuzzed",
	"api/v1alpha1/schematest": "Read takes definitions of this repository",
	"e2e/auditor":             "readDigests asks nodes, and decodes nothing itself",
	"e2e/bench":               "parseSchedstat reads a file of the kernel, and its errors end a measurement",
	"e2e/cmd/sink":            "reads what the bench tool of this repository sends",
	"e2e/promdiff":            "ParseAnswer reads answers of a Prometheus that a test has started, by encoding/json",
	"e2e/sim":                 "the simulator reads entries that its own nodes have made: whatever is wrong with them fails the run",
	"hack/kubebuilder":        "files of this repository",
	"hack/skips":              "files of this repository, and what go test prints",
	"node/agent":              "ReadMap opens the file of shardmap.Decode, which is fuzzed",
	"node/storage/vfs":        "ReadFile returns the bytes of a file as they are",
}

// decoderOf returns what a function decodes by its name and its parameters; "": nothing.
func decoderOf(f *ast.FuncDecl) string {
	if !decoderName.MatchString(f.Name.Name) {
		return ""
	}
	fills := f.Recv != nil && (f.Name.Name == "Read" || f.Name.Name == "ReadAt") // its bytes, as io.Reader and io.ReaderAt do
	for _, p := range f.Type.Params.List {
		if input := typeText(p.Type); slices.Contains(decoderInputs, input) && !(fills && input == "[]byte") {
			return f.Name.Name + "(" + input + ")"
		}
	}
	return ""
}

// typeText returns a type as it is written, of those that decoderInputs has.
func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + typeText(e.X)
	case *ast.SelectorExpr:
		return typeText(e.X) + "." + e.Sel.Name
	case *ast.ArrayType:
		if e.Len == nil {
			return "[]" + typeText(e.Elt)
		}
	}
	return ""
}

// TestDecodersAreFuzzed: a package with functions, or methods, that decode bytes by their names has a fuzz target, or
// a reason. It looks at names and types alone: a decoder by another name is not found, and which functions a target
// reaches is for its author to see.
func TestDecodersAreFuzzed(t *testing.T) {
	decoders, fuzzed := map[string][]string{}, map[string]bool{}
	for _, file := range goFiles(t) {
		source, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		if generated(source) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		isTest := strings.HasSuffix(file, "_test.go")
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			switch {
			case !ok:
			case isTest && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz"):
				fuzzed[path.Dir(file)] = true
			case !isTest && decoderOf(f) != "":
				decoders[path.Dir(file)] = append(decoders[path.Dir(file)], decoderOf(f))
			}
		}
	}
	if len(fuzzed) < 50 || len(decoders) < 50 {
		t.Fatalf("found only %d packages with fuzz targets, and %d with decoders", len(fuzzed), len(decoders))
	}
	for _, dir := range slices.Sorted(maps.Keys(decoders)) {
		if _, listed := unfuzzed[dir]; !fuzzed[dir] && !listed {
			t.Errorf("%s has no fuzz target for %s: add one, or list the package in unfuzzed with the reason", dir, strings.Join(decoders[dir], ", "))
		}
	}
	for dir, why := range unfuzzed {
		if fuzzed[dir] || decoders[dir] == nil || why == "" {
			t.Errorf("unfuzzed lists %s, which has a fuzz target, no decoders, or no reason", dir)
		}
	}
}
