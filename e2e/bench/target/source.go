package target

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Source is a repository that a peer is built from.
type Source struct {
	Program string // the program that was built
	Version string // name and commit
}

// BuildTickTock builds TickTock from a git repository, bare or not, in a copy below dir, with the flags that its makefile has.
func BuildTickTock(ctx context.Context, repository, dir string) (Source, error) {
	s, folder, err := clone(ctx, "ticktock", repository, dir)
	if err != nil {
		return s, err
	}
	s.Program = filepath.Join(folder, "bin", "tt")
	return s, build(ctx, folder, nil, "make", "-f", "Makefile.ubuntu", fmt.Sprintf("-j%d", runtime.NumCPU()), "bin/tt")
}

// zstdLibrary is what VictoriaMetrics links where it may use C. Copies of its repository may lack it, as it is large.
const zstdLibrary = "vendor/github.com/valyala/gozstd/libzstd_linux_" + runtime.GOARCH + ".a"

// BuildVictoriaMetrics builds VictoriaMetrics from a git repository, bare or not, in a copy below dir. Without its zstd library
// it is built without C, as its own pure releases are, and the version says so.
func BuildVictoriaMetrics(ctx context.Context, repository, dir string) (Source, error) {
	s, folder, err := clone(ctx, "victoria-metrics", repository, dir)
	if err != nil {
		return s, err
	}
	environment := []string{"CGO_ENABLED=1", "GOFLAGS=-mod=vendor"}
	if _, err := os.Stat(filepath.Join(folder, zstdLibrary)); err != nil {
		environment[0] = "CGO_ENABLED=0"
		s.Version += ", without C"
	}
	s.Program = filepath.Join(folder, "bin", "victoria-metrics")
	return s, build(ctx, folder, environment, "go", "build", "-o", s.Program, "./app/victoria-metrics")
}

// clone copies a repository below dir, and returns the folder and what it has.
func clone(ctx context.Context, name, repository, dir string) (Source, string, error) {
	repository, err := filepath.Abs(repository)
	if err != nil {
		return Source{}, "", err
	}
	folder := filepath.Join(dir, name)
	if err := build(ctx, dir, nil, "git", "clone", "--quiet", repository, folder); err != nil {
		return Source{}, "", err
	}
	commit, err := exec.CommandContext(ctx, "git", "-C", folder, "log", "-1", "--format=%h of %cs").Output()
	if err != nil {
		return Source{}, "", fmt.Errorf("commit of %s: %w", folder, err)
	}
	return Source{Version: name + " " + strings.TrimSpace(string(commit)) + ", built from its sources"}, folder, nil
}

// build runs a command in a folder.
func build(ctx context.Context, folder string, environment []string, name string, args ...string) error {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = folder
	command.Env = append(os.Environ(), environment...)
	output, err := command.CombinedOutput()
	if err != nil {
		const tail = 2000
		return fmt.Errorf("%s in %s: %w\n%s", strings.Join(command.Args, " "), folder, err, output[max(0, len(output)-tail):])
	}
	return nil
}
