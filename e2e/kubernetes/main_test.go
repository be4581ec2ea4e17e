package kubernetes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// buildTime bounds the compilation of a Kubernetes on a slow machine with empty caches.
const buildTime = 30 * time.Minute

// insideKey is set in the environment of the process that has entered the lab.
const insideKey = "TICKMESH_E2E_INSIDE"

var (
	rack       *lab.Rack // that runs; nil if the tests are skipped
	skipReason string
)

func TestMain(m *testing.M) {
	flag.Parse()
	wanted := strings.Split(os.Getenv("TICKMESH_E2E"), ",")
	if !slices.Contains(wanted, "kubernetes") {
		skipReason = "the environment's TICKMESH_E2E does not ask for kubernetes (make e2e does)"
		os.Exit(m.Run())
	}
	folders, err := lab.FindFolders()
	if err != nil {
		fail(err)
	}
	if os.Getenv(insideKey) == "" {
		switch err := lab.Possible(folders); {
		case errors.Is(err, lab.ErrMachine):
			skipReason = err.Error()
			fmt.Fprintln(os.Stderr, "e2e/kubernetes: SKIPPED, ALL OF IT:", skipReason)
			os.Exit(m.Run())
		case err != nil:
			fail(err)
		}
		fail(start(folders)) // returns with an error only
	}
	if rack, err = lab.Find(folders); err != nil {
		fail(err)
	}
	code := m.Run()
	if os.Getenv("TICKMESH_E2E_KEEP") == "" {
		begin := time.Now()
		if err := lab.Down(context.Background(), folders); err != nil {
			fail(err)
		}
		report("lab down", time.Since(begin))
	}
	os.Exit(code)
}

// start brings the lab up and runs this program again inside it.
func start(folders lab.Folders) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	begin := time.Now()
	if err := folders.Prepare(ctx, report); err != nil {
		return err
	}
	report("lab built", time.Since(begin))
	begin = time.Now()
	if err := buildProduct(ctx, folders, productImages(folders)); err != nil {
		return err
	}
	if err := buildProduct(ctx, folders, nextImages(folders), "-version", nextVersion); err != nil {
		return err
	}
	if !testing.Short() {
		if err := buildEarlier(ctx, folders); err != nil {
			return err
		}
	}
	if err := buildPlugin(ctx, folders); err != nil {
		return err
	}
	report("product's images and plugin built", time.Since(begin))
	begin = time.Now()
	up, err := lab.Up(ctx, folders, lab.Options{Machines: 3, CPUs: os.Getenv("TICKMESH_E2E_CPUS"), Report: report})
	if err != nil {
		return err
	}
	report("lab up", time.Since(begin))
	if err := os.Setenv(insideKey, "1"); err != nil {
		return err
	}
	return up.Enter()
}

// nextVersion is what the release says that an upgrade brings; it is made of the same
// sources. TestUpgradeOfEarlierCommit begins with others.
const nextVersion = "0.1.1-e2e"

// productImages is where the archives of the images under test are; nextImages, those of
// the next release.
func productImages(folders lab.Folders) string {
	return filepath.Join(filepath.Dir(folders.Images), "product")
}

func nextImages(folders lab.Folders) string { return filepath.Join(productImages(folders), "next") }

// pluginFolder is where kubectl finds its plugin.
func pluginFolder(folders lab.Folders) string { return filepath.Join(productImages(folders), "bin") }

// buildProduct writes the product's images for this machine to dir, from the sources as
// they are and under the names that `make images` gives them. More are further flags of
// hack/images.
func buildProduct(ctx context.Context, folders lab.Folders, dir string, more ...string) error {
	return build(ctx, folders, filepath.Join(folders.Bin, "images"),
		append([]string{"product", "-out", dir, "-prefix", "", "-architectures", architecture}, more...)...)
}

// buildPlugin compiles kubectl's plugin, in the way of the operator's image, with which it
// shares most of its packages.
func buildPlugin(ctx context.Context, folders lab.Folders) error {
	return build(ctx, folders, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(pluginFolder(folders), "kubectl-tickmesh"), "./operator/plugin/kubectl-tickmesh")
}

func build(ctx context.Context, folders lab.Folders, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folders.Checkout, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd.Run()
}

// report prints how long a phase took; nothing for one that had nothing to do.
func report(what string, took time.Duration) {
	if took > 0 {
		fmt.Printf("%-48s %7.1f s\n", what, took.Seconds())
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "e2e/kubernetes:", err)
	os.Exit(1)
}
