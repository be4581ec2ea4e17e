package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// KubernetesVersion is what the lab's Kubernetes reports; it is the version that
// hack/kubernetes/binaries/go.mod asks for. A test compares them.
const KubernetesVersion = "v1.35.4"

// A Program is one executable file that is compiled for the lab.
type Program struct {
	Name    string // of the file
	Package string // import path, or a folder of the module
	Module  string // folder of the module that pins its version, from the checkout
}

// The modules of the lab's programs. Those of Kubernetes share one, and with it most
// of their compiled packages.
const (
	binariesModule = "hack/kubernetes/binaries"
	imagesModule   = "hack/images"
)

// AssetPrograms returns the programs that controller-runtime's envtest needs.
func AssetPrograms() []Program {
	return []Program{
		{"etcd", "go.etcd.io/etcd/server/v3", binariesModule},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", binariesModule},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl", binariesModule},
	}
}

// Programs returns all programs of the lab, those that others wait for first.
func Programs() []Program {
	return append(AssetPrograms(), []Program{
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", binariesModule},
		{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", binariesModule},
		{"kubelet", "k8s.io/kubernetes/cmd/kubelet", binariesModule},
		{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", binariesModule},
		{"coredns", "./coredns", binariesModule},
		{"pause", "./pause", binariesModule},
		{"local-path-provisioner", "github.com/rancher/local-path-provisioner", binariesModule},
		{"helm", "helm.sh/helm/v3/cmd/helm", binariesModule},
		{"images", ".", imagesModule},
	}...)
}

// Build compiles those of the programs that are missing in f.Bin or were made of
// another version of the sources, the module's pins, the flags or the compiler. It
// calls report after each with the time that it took; zero says that it was there.
// Compiling is bounded by ctx only.
func (f Folders) Build(ctx context.Context, programs []Program, report func(name string, took time.Duration)) error {
	keys := map[string]string{} // by module
	if err := os.MkdirAll(f.Bin, 0o755); err != nil {
		return err
	}
	for _, p := range programs {
		start := time.Now()
		if keys[p.Module] == "" {
			key, err := f.buildKey(ctx, p.Module)
			if err != nil {
				return err
			}
			keys[p.Module] = key
		}
		built, err := f.buildOne(ctx, p, keys[p.Module])
		if err != nil {
			return fmt.Errorf("compiling %s: %w", p.Name, err)
		}
		took := time.Duration(0)
		if built {
			took = time.Since(start)
		}
		report(p.Name, took)
	}
	return nil
}

// buildOne compiles p unless its stamp says that it is there. The stamp is written
// last, so that an interrupted build is done again.
func (f Folders) buildOne(ctx context.Context, p Program, key string) (built bool, err error) {
	target := filepath.Join(f.Bin, p.Name)
	stamp := target + ".stamp"
	if old, err := os.ReadFile(stamp); err == nil && string(old) == key {
		if _, err := os.Stat(target); err == nil {
			return false, nil
		}
	}
	if err := os.Remove(stamp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", linkFlags(KubernetesVersion), "-o", target, p.Package)
	cmd.Dir = filepath.Join(f.Checkout, p.Module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return false, err
	}
	return true, os.WriteFile(stamp, []byte(key), 0o644)
}

// linkFlags strips the programs of symbols and gives them their version, which their
// own build scripts would set: without it they call themselves v0.0.0.
func linkFlags(version string) string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	flags := []string{"-s", "-w"}
	for _, p := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, value := range []string{
			"gitVersion=" + version, "gitMajor=" + major, "gitMinor=" + minor,
			"gitCommit=module", "gitTreeState=clean", "buildDate=1970-01-01T00:00:00Z",
		} {
			flags = append(flags, "-X", p+"."+value)
		}
	}
	return strings.Join(flags, " ")
}

// buildLab compiles the command of this package, whose process the rack will be. The
// compiler itself knows whether there is something to do.
func (f Folders) buildLab(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", f.program("lab"), "./hack/kubernetes")
	cmd.Dir, cmd.Stderr = f.Checkout, os.Stderr
	return cmd.Run()
}

// buildKey names everything that the programs of a module are made of.
func (f Folders) buildKey(ctx context.Context, module string) (string, error) {
	version, err := exec.CommandContext(ctx, "go", "version").Output()
	if err != nil {
		return "", fmt.Errorf("go version: %w", err)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s%s\n", version, linkFlags(KubernetesVersion))
	err = filepath.WalkDir(filepath.Join(f.Checkout, module), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n%s", entry.Name(), len(content), content)
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}
