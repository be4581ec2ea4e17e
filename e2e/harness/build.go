package harness

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
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

// Build compiles the tickmesh binary of this module into dir and gives its path.
// Extra arguments go to go build ("-race", "-tags=invariants").
func Build(ctx context.Context, dir string, extra ...string) (string, error) {
	return BuildProgram(ctx, filepath.Join(dir, "tickmesh"), ".", extra...)
}

// BuildProgram compiles a main package of this module, named from its root
// ("./e2e/cmd/etcd"), to a file, and gives the file's absolute path.
func BuildProgram(ctx context.Context, file, folder string, extra ...string) (string, error) {
	root, err := ModuleDir(ctx)
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", path}, extra...), folder)...)
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", folder, err, output)
	}
	return path, nil
}
