package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the user, and group, that the product runs as. It is the number that
// distroless images use.
const nobody = 65532

// architectures are those that the product is made for.
var architectures = []string{"amd64", "arm64"}

// program is one executable of the product.
type program struct {
	name    string // of the image and of the file
	folder  string // of its main package, from the root
	volumes []string
	ports   []string
}

var programs = []program{
	{name: "tickmesh", folder: ".", volumes: []string{"/data"}, ports: []string{"6180/tcp", "6181/tcp", "6182/tcp", "6183/tcp"}},
	{name: "tickmesh-operator", folder: "operator"},
}

// source is what the images are made of.
type source struct {
	root     string
	version  string
	revision string
	time     time.Time // of the commit
	overlay  string    // what the compiler is told to see in another way; empty: nothing
}

func readSource(ctx context.Context) (source, error) {
	git := func(args ...string) (string, error) {
		output, err := exec.CommandContext(ctx, "git", args...).Output()
		if err != nil {
			err = fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(output)), err
	}
	root, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return source{}, err
	}
	commit, err := git("log", "-1", "--format=%H %ct")
	if err != nil {
		return source{}, err
	}
	revision, stamp, _ := strings.Cut(commit, " ")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("the commit's time: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(root, versionFile))
	if err != nil {
		return source{}, err
	}
	version := versionLine.FindSubmatch(text)
	if version == nil {
		return source{}, errVersion
	}
	return source{root: root, version: string(version[1]), revision: revision, time: time.Unix(seconds, 0).UTC()}, nil
}

// build makes images of one source.
type build struct {
	source        source
	folder        string // for executables and archives
	prefix, tag   string // of the images' names
	architectures []string
	programs      []string // names; empty: all
}

// all writes the image of every program that has sources, and valuesFile.
func (b build) all(ctx context.Context, report func(string)) error {
	values := map[string]chartImage{}
	if err := os.MkdirAll(b.folder, 0o755); err != nil {
		return err
	}
	for _, p := range programs {
		if len(b.programs) > 0 && !slices.Contains(b.programs, p.name) {
			continue
		}
		sources, err := filepath.Glob(filepath.Join(b.source.root, p.folder, "*.go"))
		if err != nil {
			return err
		}
		if len(sources) == 0 {
			report(p.name + ": no sources")
			continue
		}
		digest, err := b.one(ctx, p, report)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		values[p.name] = chartImage{b.prefix + p.name, b.tag, digest.String()}
	}
	return os.WriteFile(filepath.Join(b.folder, valuesFile), chartValues(values), 0o644)
}

func (b build) one(ctx context.Context, p program, report func(string)) (digest v1.Hash, err error) {
	start := time.Now()
	var variants []variant
	for _, architecture := range b.architectures {
		executable := filepath.Join(b.folder, p.name+"-"+architecture)
		if err := p.compile(ctx, b.source, architecture, executable); err != nil {
			return digest, err
		}
		if err := writeBill(executable, executable+".cdx.json", p.name, b.source); err != nil {
			return digest, err
		}
		v, err := p.variant(b.source, architecture, executable)
		if err != nil {
			return digest, err
		}
		variants = append(variants, v)
	}
	archive := filepath.Join(b.folder, p.name+".tar")
	digest, err = save(archive, b.prefix+p.name, b.tag, variants)
	if err != nil {
		return digest, err
	}
	info, err := os.Stat(archive)
	if err != nil {
		return digest, err
	}
	report(fmt.Sprintf("%s%s:%s %s %.1f MB %.1f s", b.prefix, p.name, b.tag, digest, float64(info.Size())/1e6, time.Since(start).Seconds()))
	return digest, nil
}

// compile makes an executable that needs nothing of the system and says of which
// commit it is.
func (p program) compile(ctx context.Context, s source, architecture, executable string) error {
	args := []string{"build", "-trimpath", "-ldflags=-s -w", "-o", executable}
	if s.overlay != "" {
		args = append(args, "-overlay", s.overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+p.folder)...)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture, "GOFLAGS=-buildvcs=auto")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

func (p program) variant(s source, architecture, executable string) (variant, error) {
	v := variant{
		architecture: architecture, files: tree{}, created: s.time, compress: true,
		config: v1.Config{
			Entrypoint: []string{"/" + p.name}, User: fmt.Sprintf("%d:%d", nobody, nobody), WorkingDir: "/",
			Labels: labels(p.name, s.version, s.revision),
		},
	}
	for _, volume := range p.volumes {
		if err := v.files.add(volume, file{mode: fs.ModeDir | 0o750, user: nobody}); err != nil {
			return v, err
		}
	}
	for _, port := range p.ports {
		if v.config.ExposedPorts == nil {
			v.config.ExposedPorts = map[string]struct{}{}
		}
		v.config.ExposedPorts[port] = struct{}{}
	}
	if err := v.files.copy(executable, "/"+p.name, 0o755); err != nil {
		return v, err
	}
	passwd := fmt.Sprintf("root:x:0:0:root:/:/none\nnonroot:x:%d:%d:nonroot:/:/none\n", nobody, nobody)
	group := fmt.Sprintf("root:x:0:\nnonroot:x:%d:\n", nobody)
	for name, content := range map[string][]byte{
		"/etc/passwd": []byte(passwd), "/etc/group": []byte(group), "/etc/ssl/certs/ca-certificates.crt": authorities(),
	} {
		if err := v.files.add(name, file{mode: 0o644, content: content}); err != nil {
			return v, err
		}
	}
	return v, nil
}

// authorities are the roots of certificates that Mozilla trusts without conditions,
// for backups to public object stores. They are pinned as a module, so that the image
// does not depend on the machine that made it.
func authorities() []byte {
	var text []byte
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file of certificates cannot say the condition
		}
		if _, err := x509.ParseCertificate(root.Certificate); err != nil {
			continue // Go would not use it
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
	}
	return text
}
