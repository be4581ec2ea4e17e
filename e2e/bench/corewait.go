package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// coreWait returns how long the threads of a process have been ready to run while others
// had the cores, as Linux counts it for each thread that lives. Where it grows by much, a
// machine was measured that was not the server's alone, and tails of latencies say little.
func coreWait(pid int) (sum time.Duration, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return 0, err
		}
		wait, err := parseSchedstat(string(text))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		sum += wait
	}
	return sum, nil
}

// parseSchedstat reads the second of a thread's three numbers: nanoseconds on cores,
// nanoseconds of waiting for one, and turns.
func parseSchedstat(text string) (time.Duration, error) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return 0, fmt.Errorf("%d numbers in %q, want 3", len(fields), text)
	}
	nanoseconds, err := strconv.ParseInt(fields[1], 10, 64)
	return time.Duration(nanoseconds), err
}
