package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// How Go's time.Now begins, and how it begins where the clock can be set.
var (
	clockRead = []byte("func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n")
	clockSet  = []byte("func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n\tsec += setAhead(mono)\n")
)

// setClock is what the package time has besides in programs whose clock can be set.
//
//go:embed setclock.go.txt
var setClock string

// withClock returns a source whose programs have a clock that somebody else sets: time.Now adds the seconds that a file says, and
// looks at it ten times a second. What counts time goes by the monotonic clock, as if the machine's clock had been set. The product's
// sources are as they are; the compiler is shown another standard library. It is for tests of clocks that jump: no
// namespace of Linux has a clock of its own, and the machine's other programs need theirs.
func (s source) withClock(ctx context.Context, file, folder string) (source, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return s, fmt.Errorf("go env GOROOT: %w", err)
	}
	library := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(library, "time.go"))
	if err != nil {
		return s, err
	}
	if bytes.Count(text, clockRead) != 1 {
		return s, errors.New("this Go's time.Now does not begin as hack/images/clock.go has it: compare them")
	}
	if s, err = s.show(filepath.Join(library, "time.go"), bytes.Replace(text, clockRead, clockSet, 1), folder); err != nil {
		return s, err
	}
	return s.show(filepath.Join(library, "setclock.go"), fmt.Appendf(nil, "%s\nconst aheadFile = %q\n", setClock, file), folder)
}
