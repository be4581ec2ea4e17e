package harness

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticksPerSecond is USER_HZ, the unit of times in /proc/PID/stat. It is 100 on
// every architecture that Linux and Go share.
const ticksPerSecond = 100

// Usage is what a process has cost so far, from /proc.
type Usage struct {
	CPU               time.Duration // user and system
	RSSBytes          int64         // VmRSS
	RSSAnonBytes      int64         // RssAnon: heap, stacks
	RSSFileBytes      int64         // RssFile: mapped files
	RSSMaxBytes       int64         // VmHWM
	WrittenBytes      int64         // write_bytes: sent towards block devices
	WrittenCallsBytes int64         // wchar: given to write(2) and the like, sockets included
	ReadBytes         int64         // read_bytes: fetched from block devices
}

// Usage reads the process's costs. It fails when the process has ended.
func (p *Process) Usage() (Usage, error) { return ReadUsage(p.PID()) }

// ReadUsage reads the costs of any process of this user.
func ReadUsage(pid int) (Usage, error) {
	var usage Usage
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage, err
	}
	if usage.CPU, err = parseStatCPU(stat); err != nil {
		return usage, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage, err
	}
	kilobytes := parseFields(status)
	usage.RSSBytes = kilobytes["VmRSS"] * 1024
	usage.RSSAnonBytes = kilobytes["RssAnon"] * 1024
	usage.RSSFileBytes = kilobytes["RssFile"] * 1024
	usage.RSSMaxBytes = kilobytes["VmHWM"] * 1024
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return usage, err
	}
	counts := parseFields(io)
	usage.WrittenBytes = counts["write_bytes"]
	usage.WrittenCallsBytes = counts["wchar"]
	usage.ReadBytes = counts["read_bytes"]
	return usage, nil
}

// parseStatCPU takes utime and stime, fields 14 and 15. The second field is the
// command in parentheses, which may itself hold spaces and parentheses.
func parseStatCPU(stat []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, fmt.Errorf("/proc/PID/stat without a command: %q", stat)
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/PID/stat is too short: %q", stat)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// parseFields reads lines of "name: number unit" and leaves out all others.
func parseFields(text []byte) map[string]int64 {
	values := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		name, rest, found := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if !found || len(fields) == 0 {
			continue
		}
		if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			values[name] = n
		}
	}
	return values
}

// DiskBytes is the space that the files under dir take on disk, as du counts it
// (allocated blocks, so that preallocated files count in full and holes do not).
func DiskBytes(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // removed while we walk: servers delete files
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && !entry.IsDir() {
			total += stat.Blocks * 512
		}
		return nil
	})
	return total, err
}
