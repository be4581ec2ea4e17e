package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// ErrMissing is returned by Install when a program is missing and cannot be
// installed here.
var ErrMissing = errors.New("a program that the test needs is missing")

// Install makes sure that a program is there: when it is not, and this process
// may, it installs the Debian package without starting its service. It returns the
// program's path.
func Install(ctx context.Context, program, packageName string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return "", fmt.Errorf("%w: %s; as root: apt-get install --no-install-recommends %s", ErrMissing, program, packageName)
	}
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", packageName}} {
		command := exec.CommandContext(ctx, "apt-get", args...)
		// In run level 1 the package's scripts start no service.
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		if output, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s: apt-get %s: %w\n%s", ErrMissing, program, args[0], err, output)
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%w: package %s has no %s", ErrMissing, packageName, program)
	}
	return path, nil
}
