package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkout writes the files that git knows into a new folder.
func checkout(t *testing.T) source {
	t.Helper()
	root := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "git", "checkout-index", "--all", "--prefix="+root+"/")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return source{root: root, version: "1.2.3", time: time.Unix(1_700_000_000, 0).UTC()}
}

// TestBuildsAreReproducible compiles a small program for both architectures and the product
// for one, each in two folders, and compares executables and lists of modules byte by byte.
func TestBuildsAreReproducible(t *testing.T) {
	small := program{name: "skips", folder: "hack/skips"}
	for _, architecture := range architectures {
		t.Run(small.name+"-"+architecture, func(t *testing.T) { compareBuilds(t, small, architecture) })
	}
	t.Run("tickmesh-"+architectures[0], func(t *testing.T) {
		if testing.Short() {
			t.Skip("-short: this test compiles the product twice")
		}
		compareBuilds(t, programs[0], architectures[0])
	})
}

func compareBuilds(t *testing.T, p program, architecture string) {
	t.Helper()
	var executables, bills [][]byte
	for range 2 {
		s := checkout(t)
		executable := filepath.Join(s.root, "built")
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
