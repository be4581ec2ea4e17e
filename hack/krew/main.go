// Command krew makes what a release of the kubectl plugin consists of: an archive for each platform of
// operator/plugin/krew.yaml, the same bytes each time, and that manifest with their sums.
//
//	go run ./hack/krew -out bin/krew
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/hack/archive"
)

const (
	manifestFile = "operator/plugin/krew.yaml"
	manifestName = "tickmesh.yaml" // as krew's index names it
	program      = "kubectl-tickmesh"
)

// noSum stands in the manifest where a sum is to be.
var noSum = strings.Repeat("0", 2*sha256.Size)

func main() {
	out := flag.String("out", "bin/krew", "`folder` for archives and manifest")
	flag.Parse()
	if err := run(context.Background(), ".", *out, compile); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

// platform is one that the manifest names.
type platform struct {
	URI      string
	Selector struct{ MatchLabels map[string]string }
}

// run makes all files below out from the sources below root.
func run(ctx context.Context, root, out string, compile func(ctx context.Context, root, system, arch string) ([]byte, error)) error {
	text, err := os.ReadFile(filepath.Join(root, manifestFile))
	if err != nil {
		return err
	}
	var manifest struct {
		Spec struct{ Platforms []platform }
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		return fmt.Errorf("%s: %w", manifestFile, err)
	}
	if bytes.Count(text, []byte(noSum)) != len(manifest.Spec.Platforms) {
		return errors.New(manifestFile + " has not one empty sum for each platform")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, p := range manifest.Spec.Platforms {
		binary, err := compile(ctx, root, p.Selector.MatchLabels["os"], p.Selector.MatchLabels["arch"])
		if err != nil {
			return err
		}
		archive, err := pack(root, binary)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, path.Base(p.URI)), archive, 0o644); err != nil {
			return err
		}
		sum := sha256.Sum256(archive)
		text = bytes.Replace(text, []byte(noSum), []byte(hex.EncodeToString(sum[:])), 1)
	}
	return os.WriteFile(filepath.Join(out, manifestName), text, 0o644)
}

// compile returns the plugin for a platform.
func compile(ctx context.Context, root, system, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "krew-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, program)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, "./operator/plugin/"+program)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+arch)
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("compile for %s/%s: %w", system, arch, err)
	}
	return os.ReadFile(file)
}

// pack returns the archive of a program, with the licence and the program for completion beside it.
// It has no times, so that the same program has the same archive.
func pack(root string, binary []byte) ([]byte, error) {
	licence, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	const completion = "kubectl_complete-tickmesh"
	script, err := os.ReadFile(filepath.Join(root, "operator/plugin", completion))
	if err != nil {
		return nil, err
	}
	return archive.Write(
		archive.File{Name: "LICENSE", Mode: 0o644, Content: licence},
		archive.File{Name: program, Mode: 0o755, Content: binary},
		archive.File{Name: completion, Mode: 0o755, Content: script},
	)
}
