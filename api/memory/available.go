package memory

import (
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/api/controlgroup"
)

// Files of Linux about memory: of the machine's, relative to the root of the file system, and of a control group.
const (
	memoryInfoFile = "proc/meminfo"
	groupLimit     = "memory.max"
	groupLimitOld  = "memory.limit_in_bytes" // of version 1
)

// Unlimited stands for the memory of a process if its limit is not known.
const Unlimited int64 = math.MaxInt64

// available returns the bytes of memory that this process may use, page cache
// included: the machine's memory, or less if a control group of the process, or one
// around it, has a limit. It returns Unlimited if neither is known.
func available(root fs.FS) int64 {
	n := totalOf(controlgroup.Read(root, memoryInfoFile))
	for _, name := range controlgroup.Files(root, "memory", groupLimit, groupLimitOld) {
		n = min(n, groupLimitOf(controlgroup.Read(root, name)))
	}
	return n
}

// totalOf parses the machine's memory from the text of /proc/meminfo.
func totalOf(text string) int64 {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "MemTotal:" || fields[2] != "kB" {
			continue
		}
		if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil && n > 0 && n <= math.MaxInt64>>10 {
			return n << 10
		}
	}
	return Unlimited
}

// groupLimitOf parses the limit in a file of a control group. "max" is Unlimited, as is any
// text that is not understood.
func groupLimitOf(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n <= 0 {
		return Unlimited
	}
	return n
}
