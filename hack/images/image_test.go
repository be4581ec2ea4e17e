package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// entries reads a tar archive as lines: mode, owner, name, what it holds.
func entries(t *testing.T, r io.Reader) []string {
	t.Helper()
	var lines []string
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %o %d:%d %s %s%s", string(header.Typeflag), header.Mode, header.Uid, header.Gid, header.Name, header.Linkname, content))
	}
}

func TestTree(t *testing.T) {
	source := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(source, []byte("text"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(source, source+"-link"); err != nil {
		t.Fatal(err)
	}
	files := tree{}
	err := errors.Join(
		files.copy(source+"-link", "/z/b/copied", 0),
		files.copy(source, "/run", 0o755),
		files.add("/data", file{mode: fs.ModeDir | 0o750, user: 65532}),
		files.add("/tmp", file{mode: fs.ModeDir | fs.ModeSticky | 0o777}),
		files.add("/z/a", file{mode: fs.ModeSymlink | 0o777, content: []byte("b/copied")}),
	)
	if err != nil {
		t.Fatal(err)
	}
	content, err := files.bytes(time.Unix(1_700_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"5 750 65532:65532 data/ ", "0 755 0:0 run text", "5 1777 0:0 tmp/ ", "5 755 0:0 z/ ",
		"2 777 0:0 z/a b/copied", "5 755 0:0 z/b/ ", "0 640 0:0 z/b/copied text",
	}
	if got := entries(t, bytes.NewReader(content)); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, name := range []string{"", "/", "relative", "/run/below"} {
		if err := files.add(name, file{}); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
	if err := files.copy(t.TempDir(), "/folder", 0); err == nil {
		t.Error("a folder was copied as a file")
	}
}

// An image is kept under the name that kubelet looks for: what "tickmesh:0.1.0" in a chart
// stands for has a host, and a folder where there is none.
func TestFullName(t *testing.T) {
	for name, want := range map[string]*regexp.Regexp{
		"tickmesh":             regexp.MustCompile(`^[a-z]+\.[a-z]+/library/tickmesh:1\.2$`),
		"example/tickmesh":     regexp.MustCompile(`^[a-z]+\.[a-z]+/example/tickmesh:1\.2$`),
		"lab.local/tickmesh":   regexp.MustCompile(`^lab\.local/tickmesh:1\.2$`),
		"localhost:5000/a/b_c": regexp.MustCompile(`^localhost:5000/a/b_c:1\.2$`),
	} {
		if full, err := fullName(name, "1.2"); err != nil || !want.MatchString(full) {
			t.Errorf("%s: %q, %v; want %v", name, full, err, want)
		}
	}
	for _, bad := range [][2]string{{"Tickmesh", "1"}, {"", "1"}, {"tickmesh", ""}, {"tickmesh", "a b"}} {
		if full, err := fullName(bad[0], bad[1]); err == nil {
			t.Errorf("%q is taken as %q", bad, full)
		}
	}
}

// open unpacks an archive and reads the image's index for all architectures.
func open(t *testing.T, archive string) (v1.ImageIndex, map[string]string) {
	t.Helper()
	dir := t.TempDir()
	in, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for reader := tar.NewReader(in); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(reader); err == nil {
				err = os.WriteFile(name, content, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%v, %v", manifest, err)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index, manifest.Manifests[0].Annotations
}

// The product's image has what the program needs, and no more; and the same files give
// the same bytes.
func TestProduct(t *testing.T) {
	dir := t.TempDir()
	s := source{version: "1.2.3", revision: "abc", time: time.Unix(1_700_000_000, 0).UTC()}
	var variants []variant
	for _, architecture := range architectures {
		executable := filepath.Join(dir, architecture)
		if err := os.WriteFile(executable, []byte("program for "+architecture), 0o700); err != nil {
			t.Fatal(err)
		}
		v, err := programs[0].variant(s, architecture, executable)
		if err != nil {
			t.Fatal(err)
		}
		variants = append(variants, v)
	}
	first, second := filepath.Join(dir, "first.tar"), filepath.Join(dir, "second.tar")
	digest, err := save(first, "example/tickmesh", "1.2.3", variants)
	if err != nil {
		t.Fatal(err)
	}
	again, err := save(second, "example/tickmesh", "1.2.3", variants)
	if err != nil || again != digest {
		t.Errorf("%v, then %v, %v", digest, again, err)
	}
	a, b := read(t, first), read(t, second)
	if !bytes.Equal(a, b) {
		t.Error("the same files gave other bytes")
	}
	index, annotations := open(t, first)
	if name := annotations["io.containerd.image.name"]; !strings.HasSuffix(name, "/example/tickmesh:1.2.3") {
		t.Errorf("%v", annotations)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != len(architectures) {
		t.Fatalf("%v, %v", manifest, err)
	}
	for i, descriptor := range manifest.Manifests {
		if descriptor.Platform.OS != "linux" || descriptor.Platform.Architecture != architectures[i] {
			t.Errorf("%v", descriptor.Platform)
		}
		checkVariant(t, index, descriptor.Digest, architectures[i])
	}
}

func checkVariant(t *testing.T, index v1.ImageIndex, digest v1.Hash, architecture string) {
	t.Helper()
	image, err := index.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != architecture || config.Config.User != "65532:65532" ||
		!slices.Equal(config.Config.Entrypoint, []string{"/tickmesh"}) ||
		config.Config.Labels["org.opencontainers.image.revision"] != "abc" || config.Created.Unix() != 1_700_000_000 {
		t.Errorf("%+v", config)
	}
	content := mutate.Extract(image)
	defer content.Close()
	var names []string
	for _, line := range entries(t, content) {
		header, _, _ := strings.Cut(line, "\n")
		fields := strings.Fields(header)
		names = append(names, strings.Join(fields[:4], " "))
		if fields[3] == "tickmesh" && !strings.HasSuffix(line, "program for "+architecture) {
			t.Errorf("%s holds %q", architecture, line)
		}
	}
	slices.Sort(names)
	want := []string{
		"0 644 0:0 etc/group", "0 644 0:0 etc/passwd", "0 644 0:0 etc/ssl/certs/ca-certificates.crt", "0 755 0:0 tickmesh",
		"5 750 65532:65532 data", "5 755 0:0 etc", "5 755 0:0 etc/ssl", "5 755 0:0 etc/ssl/certs",
	}
	for i := range names {
		names[i] = strings.TrimSuffix(names[i], "/")
	}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestAuthorities(t *testing.T) {
	count := 0
	for rest := authorities(); len(rest) > 0; count++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			t.Fatalf("after %d certificates: no certificate", count)
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err != nil || !certificate.IsCA {
			t.Errorf("%v, %v", certificate, err)
		}
	}
	if count < 50 {
		t.Errorf("only %d", count)
	}
}

func TestPack(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("#!"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.tar")
	p, err := readPacking([]string{
		"-out", out, "-name", "host:1/a/b:tag", "-entrypoint", "/p", "-entrypoint", "x", "-user", "7", "-folder", "/tmp:1777",
		"-link", "/bin/q=../p", source + ":/p:755",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	index, annotations := open(t, out)
	if annotations["io.containerd.image.name"] != "host:1/a/b:tag" || annotations["org.opencontainers.image.ref.name"] != "tag" {
		t.Errorf("%v", annotations)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(image)
	defer content.Close()
	got := entries(t, content)
	slices.Sort(got)
	want := []string{"0 755 0:0 p #!", "2 777 0:0 bin/q ../p", "5 1777 0:0 tmp ", "5 755 0:0 bin "}
	for i := range got {
		got[i] = strings.Replace(got[i], "/ ", " ", 1)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, args := range [][]string{{"-out", out}, {"-out", out, "-name", "untagged"}, {"-unknown"}} {
		if _, err := readPacking(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// This checkout is a source of the product.
func TestSource(t *testing.T) {
	s, err := readSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.version == "" || len(s.revision) != 40 || s.time.Year() < 2020 {
		t.Errorf("%+v", s)
	}
}

func FuzzCutMode(f *testing.F) {
	f.Add("/tmp:1777")
	f.Add("/a")
	f.Add(":9")
	f.Fuzz(func(t *testing.T, text string) {
		path, mode, err := cutMode(text, 0o755)
		if err != nil {
			return
		}
		octal := mode.Perm()
		if mode&fs.ModeSticky != 0 {
			octal |= 0o1000
		}
		again, same, err := cutMode(fmt.Sprintf("%s:%o", path, octal), 0)
		if !strings.Contains(path, ":") && (err != nil || again != path || same != mode) {
			t.Errorf("%q: %q %v, then %q %v, %v", text, path, mode, again, same, err)
		}
	})
}
