package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkout copies what a small program of this repository is built of into a new folder.
func checkout(t *testing.T) source {
	t.Helper()
	root := t.TempDir()
	for _, pattern := range []string{"go.mod", "go.sum", "hack/skips/*.go", "hack/skips/*.yaml"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(root, strings.TrimPrefix(filepath.ToSlash(file), "../../"))
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return source{root: root, version: "1.2.3", time: time.Unix(1_700_000_000, 0).UTC()}
}

// TestBuildsAreReproducible compiles a program as the product is compiled, in two folders
// and for both architectures, and compares executables and lists of modules byte by byte.
func TestBuildsAreReproducible(t *testing.T) {
	p := program{name: "skips", folder: "hack/skips"}
	for _, architecture := range architectures {
		var executables, bills [][]byte
		for range 2 {
			s := checkout(t)
			executable := filepath.Join(s.root, p.name)
			if err := p.compile(t.Context(), s, architecture, executable); err != nil {
				t.Fatal(err)
			}
			if err := writeBill(executable, executable+".cdx.json", p.name, s); err != nil {
				t.Fatal(err)
			}
			for name, into := range map[string]*[][]byte{executable: &executables, executable + ".cdx.json": &bills} {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				*into = append(*into, text)
			}
		}
		if !bytes.Equal(executables[0], executables[1]) || !bytes.Equal(bills[0], bills[1]) {
			t.Errorf("%s: two builds of one source differ", architecture)
		}
		var b bom
		if err := json.Unmarshal(bills[0], &b); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(b.Components, func(c component) bool { return strings.HasPrefix(c.PURL, "pkg:golang/std@go1.") }) || b.Metadata.Component.Version != "1.2.3" {
			t.Errorf("%s", bills[0])
		}
	}
}
