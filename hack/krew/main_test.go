package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/process"
)

const root = "../.."

// plugin has all fields that krew knows.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		Homepage         string `json:"homepage"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Caveats          string `json:"caveats"`
		Platforms        []struct {
			URI      string                `json:"uri"`
			Sha256   string                `json:"sha256"`
			Bin      string                `json:"bin"`
			Selector *metav1.LabelSelector `json:"selector"`
			Files    []struct {
				From string `json:"from"`
				To   string `json:"to"`
			} `json:"files"`
		} `json:"platforms"`
	} `json:"spec"`
}

// release makes the files of a release of programs that are not compiled.
func release(t *testing.T) (dir string, p *plugin) {
	t.Helper()
	dir = t.TempDir()
	err := run(t.Context(), root, dir, func(_ context.Context, _, system, arch string) ([]byte, error) {
		return []byte("program for " + system + "/" + arch), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "tickmesh.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p = &plugin{}
	if err := yaml.UnmarshalStrict(text, p); err != nil {
		t.Fatal(err)
	}
	return dir, p
}

// The manifest keeps the rules by which krew takes one into its index, and those of its guide for
// names of programs and versions.
func TestManifest(t *testing.T) {
	_, p := release(t)
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata.Name != "tickmesh" {
		t.Errorf("%s %s %s", p.APIVersion, p.Kind, p.Metadata.Name)
	}
	s := &p.Spec
	if s.Version != "v"+process.Version || !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(s.Version) {
		t.Errorf("version %s of %s", s.Version, process.Version)
	}
	if s.ShortDescription == "" || len(s.ShortDescription) > 60 || strings.ContainsAny(s.ShortDescription, "\r\n") || s.Description == "" || !strings.HasPrefix(s.Homepage, "https://") {
		t.Errorf("%q, %q, %q", s.ShortDescription, s.Description, s.Homepage)
	}
	var platforms []string
	for _, pl := range s.Platforms {
		if pl.Selector == nil || len(pl.Selector.MatchLabels) != 2 || len(pl.Selector.MatchExpressions) > 0 || pl.Bin != "kubectl-tickmesh" || pl.Files != nil {
			t.Fatalf("%+v", pl)
		}
		system, arch := pl.Selector.MatchLabels["os"], pl.Selector.MatchLabels["arch"]
		platforms = append(platforms, system+"/"+arch)
		if !strings.HasPrefix(pl.URI, "https://") || !strings.HasSuffix(pl.URI, "/"+s.Version+"/kubectl-tickmesh_"+system+"_"+arch+".tar.gz") {
			t.Errorf("%s is for %s/%s of %s", pl.URI, system, arch, s.Version)
		}
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}) {
		t.Errorf("platforms %v", platforms)
	}
}

// The sums are those of the archives, each of which has the program of its platform; made again they
// are the same.
func TestArchives(t *testing.T) {
	dir, p := release(t)
	again, _ := release(t)
	for _, pl := range p.Spec.Platforms {
		name := filepath.Base(pl.URI)
		archive, err := os.ReadFile(filepath.Join(dir, name))
		second, failed := os.ReadFile(filepath.Join(again, name))
		if err != nil || failed != nil || !bytes.Equal(archive, second) {
			t.Fatalf("%s differs when it is made again (%v, %v)", name, err, failed)
		}
		if sum := sha256.Sum256(archive); pl.Sha256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: sum %s", name, pl.Sha256)
		}
		files := unpack(t, archive)
		want := "program for " + pl.Selector.MatchLabels["os"] + "/" + pl.Selector.MatchLabels["arch"]
		if files[pl.Bin] != want || !strings.Contains(files["LICENSE"], "Apache License") || !strings.Contains(files["kubectl_complete-tickmesh"], "kubectl tickmesh __complete") {
			t.Errorf("%s has %v", name, files)
		}
	}
}

// unpack returns the contents of an archive's files, of which programs can be run.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for all := tar.NewReader(zipped); ; {
		header, err := all.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(all)
		if err != nil {
			t.Fatal(err)
		}
		if runs := header.Mode&0o111 != 0; runs != strings.HasPrefix(header.Name, "kubectl") {
			t.Errorf("%s has mode %o", header.Name, header.Mode)
		}
		files[header.Name] = string(content)
	}
}
