package harness

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// ModuleDir is the root folder of the module that holds the working directory.
func ModuleDir(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	path := strings.TrimSpace(string(output))
	if path == "" || path == "/dev/null" {
		return "", errors.New("the working directory is not inside the module")
	}
	return filepath.Dir(path), nil
}

// BinariesKey names the environment variable of a folder in which all tests of one run
// share the programs that they build. Whoever sets it starts with an empty folder; without
// it every test builds into a folder of its own.
const BinariesKey = "E2E_BINARIES"

// Build compiles the tickmesh binary of this module into dir and returns its path.
// Extra arguments go to go build ("-tags=invariants").
func Build(ctx context.Context, dir string, extra ...string) (string, error) {
	return BuildProgram(ctx, filepath.Join(dir, "tickmesh"), ".", extra...)
}

// BuildProgram compiles a main package of this module, named from its root
// ("./e2e/cmd/etcd"), to a file, and returns the file's absolute path. Where BinariesKey
// names a folder, the program is compiled once for all tests and file is not written.
func BuildProgram(ctx context.Context, file, folder string, extra ...string) (string, error) {
	root, err := ModuleDir(ctx)
	if err != nil {
		return "", err
	}
	shared := os.Getenv(BinariesKey)
	if shared != "" {
		file = filepath.Join(shared, sharedName(filepath.Base(file), folder, extra))
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	if shared == "" {
		return path, compile(ctx, root, path, folder, extra)
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	building := path + ".new" // so that a build that was cut short leaves no program
	if err := compile(ctx, root, building, folder, extra); err != nil {
		return "", err
	}
	return path, os.Rename(building, path)
}

// sharedName returns the file name of a program in the shared folder: one for each way of
// building it.
func sharedName(base, folder string, extra []string) string {
	digest := sha256.Sum256([]byte(strings.Join(append([]string{folder}, extra...), "\x00")))
	return fmt.Sprintf("%s-%x", base, digest[:6])
}

func compile(ctx context.Context, root, path, folder string, extra []string) error {
	command := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", path}, extra...), folder)...)
	command.Dir = root
	// As hack/images compiles what a release ships, whose packages need not be compiled again then.
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", folder, err, output)
	}
	return nil
}

// lockFile waits until no other process holds the file, and holds it until unlock.
func lockFile(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil // closing it releases the lock
}
