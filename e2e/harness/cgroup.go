package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoMemoryGroup reports that this machine does not let us make a memory control
// group; the text says why.
var ErrNoMemoryGroup = errors.New("no memory control group can be made here")

// MemoryGroup is a control group with a limit on memory, page cache included. It
// works with version 1 and version 2 of the kernel's interface.
type MemoryGroup struct {
	dir     string
	version int
}

// NewMemoryGroup makes a group with a limit in bytes below the group that this
// process is in. Close removes it. It needs the right to do so, normally root's.
func NewMemoryGroup(limitBytes int64) (*MemoryGroup, error) {
	parent, version, err := memoryParent()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "tickmesh-e2e-")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoMemoryGroup, err)
	}
	group := &MemoryGroup{dir: dir, version: version}
	settings := map[string]string{"memory.limit_in_bytes": strconv.FormatInt(limitBytes, 10)}
	if version == 2 {
		settings = map[string]string{"memory.max": strconv.FormatInt(limitBytes, 10), "memory.swap.max": "0"}
	}
	for name, value := range settings {
		err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0)
		if os.IsNotExist(err) && name == "memory.swap.max" {
			continue // a kernel without swap accounting
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoMemoryGroup, errors.Join(err, group.Close()))
		}
	}
	return group, nil
}

// memoryParent finds the directory below which groups with a memory limit can be
// made: the memory hierarchy of version 1 if it is mounted, else version 2.
func memoryParent() (dir string, version int, err error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", ErrNoMemoryGroup, err)
	}
	unified := ""
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[1] == "memory" {
			return filepath.Join("/sys/fs/cgroup/memory", parts[2]), 1, nil
		}
		if parts[0] == "0" && parts[1] == "" {
			unified = parts[2]
		}
	}
	if unified == "" {
		return "", 0, fmt.Errorf("%w: no memory controller in /proc/self/cgroup", ErrNoMemoryGroup)
	}
	// A group of version 2 that has processes cannot have children with a
	// memory limit, so ours becomes a sibling of the one that we are in.
	dir = filepath.Join("/sys/fs/cgroup", filepath.Dir(unified))
	control, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", ErrNoMemoryGroup, err)
	}
	if strings.Contains(string(control), "memory") {
		return dir, 2, nil
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
		return "", 0, fmt.Errorf("%w: the memory controller is off below %s: %w", ErrNoMemoryGroup, dir, err)
	}
	return dir, 2, nil
}

// start starts a process in the group: one that asks for its limit when it begins
// must not see the one that it would have without.
func (g *MemoryGroup) start(command *exec.Cmd, start func() error) error {
	if g.version == 2 {
		dir, err := os.Open(g.dir)
		if err != nil {
			return err
		}
		defer dir.Close()
		command.SysProcAttr.UseCgroupFD, command.SysProcAttr.CgroupFD = true, int(dir.Fd())
		return start()
	}
	// In version 1 a child begins in the group of the thread that forks it. What this
	// process allocates meanwhile is charged where its main thread is.
	runtime.LockOSThread()
	thread := []byte(strconv.Itoa(unix.Gettid()))
	if err := os.WriteFile(filepath.Join(g.dir, "tasks"), thread, 0); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	startErr := start()
	if err := os.WriteFile(filepath.Join(filepath.Dir(g.dir), "tasks"), thread, 0); err != nil {
		// The thread stays locked: it must not go back to the scheduler.
		return errors.Join(startErr, err)
	}
	runtime.UnlockOSThread()
	return startErr
}

// Kills is how many processes the kernel has killed because the group was full.
func (g *MemoryGroup) Kills() (int64, error) {
	if g.version == 2 {
		return g.field("memory.events", "oom_kill")
	}
	return g.field("memory.oom_control", "oom_kill")
}

// AnonymousBytes is the memory of the group's processes that no file backs, so that the kernel
// cannot take it back.
func (g *MemoryGroup) AnonymousBytes() (int64, error) {
	if g.version == 2 {
		return g.field("memory.stat", "anon")
	}
	return g.field("memory.stat", "rss")
}

// PeakBytes is the most memory that the group has had, page cache included. Where the kernel does
// not tell (version 2 before Linux 5.19), it is an error.
func (g *MemoryGroup) PeakBytes() (int64, error) {
	name := "memory.max_usage_in_bytes"
	if g.version == 2 {
		name = "memory.peak"
	}
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// field reads a number of a file of lines `name number`; 0: there is no such line.
func (g *MemoryGroup) field(file, name string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, nil
}

// Close removes the group. Its processes must have ended; the kernel may need a
// moment to notice, so it is tried for a second.
func (g *MemoryGroup) Close() error {
	var err error
	for range 20 {
		if err = os.Remove(g.dir); err == nil || os.IsNotExist(err) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("remove control group: %w", err)
}
