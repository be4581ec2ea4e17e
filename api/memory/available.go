package memory

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// Files of Linux about memory, relative to the root of the file system.
const (
	memoryInfoFile = "proc/meminfo"
	groupsFile     = "proc/self/cgroup"
	groupFolder    = "sys/fs/cgroup"        // of version 2
	groupFolderOld = "sys/fs/cgroup/memory" // of version 1
	groupLimit     = "memory.max"
	groupLimitOld  = "memory.limit_in_bytes"
	groupLevelsMax = 64
)

// Unlimited stands for the memory of a process if its limit is not known.
const Unlimited int64 = math.MaxInt64

// available returns the bytes of memory that this process may use, page cache
// included: the machine's memory, or less if a control group of the process, or one
// around it, has a limit. It returns Unlimited if neither is known.
func available(root fs.FS) int64 {
	n := totalOf(readText(root, memoryInfoFile))
	for _, name := range groupLimits(readText(root, groupsFile)) {
		n = min(n, groupLimitOf(readText(root, name)))
	}
	return n
}

// readText returns a file's text, or "" if it cannot be read, since not every machine
// has each of these files.
func readText(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(text)
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

// groupLimits returns the names of the files that may have a limit, from the text of
// /proc/self/cgroup, whose lines are number:controllers:path. In a container the
// path may be that of the host; the container's own limit is then at the top.
func groupLimits(text string) (names []string) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		folder, file := "", ""
		switch {
		case parts[0] == "0" && parts[1] == "":
			folder, file = groupFolder, groupLimit
		case strings.Contains(","+parts[1]+",", ",memory,"):
			folder, file = groupFolderOld, groupLimitOld
		default:
			continue
		}
		// Cleaned as an absolute path, none leads out of the folder.
		at := path.Clean("/" + parts[2])
		for range groupLevelsMax {
			if name := path.Join(folder, at, file); fs.ValidPath(name) {
				names = append(names, name)
			}
			if at == "/" {
				break
			}
			at = path.Dir(at)
		}
	}
	return names
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
