package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// owner is a process that cannot be confused with a later one of the same id.
type owner struct {
	pid   int
	start uint64 // since the machine's start, in clock ticks
}

// errEnded reports that a process is no more, or waits to be forgotten by its parent.
var errEnded = errors.New("the process has ended")

// ownerOf returns the process with this id, which must live.
func ownerOf(pid int) (owner, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return owner{}, err
	}
	start, err := startTime(stat)
	return owner{pid, start}, err
}

// startTime reads field 22 of /proc/PID/stat (see proc(5)). The second field is the
// program's name in brackets and may hold anything; the third is the state.
func startTime(stat []byte) (uint64, error) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return 0, errors.New("a process' state is too short")
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, errEnded
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0, err // ParseUint has a value where one is out of range
	}
	return start, nil
}

func (o owner) write(file string) error {
	return os.WriteFile(file, fmt.Appendf(nil, "%d %d\n", o.pid, o.start), 0o644)
}

func readOwner(file string) (owner, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return owner{}, err
	}
	var o owner
	if _, err := fmt.Sscanf(string(content), "%d %d", &o.pid, &o.start); err != nil {
		return owner{}, fmt.Errorf("%s: %w", file, err)
	}
	return o, nil
}

func (o owner) alive() bool {
	now, err := ownerOf(o.pid)
	return err == nil && now == o
}

// killGuests ends the processes in the network of this one that do not end with it, as
// commands that were run there and are still at it. The calling process may be in it, too.
func (o owner) killGuests() error {
	if !o.alive() {
		return nil
	}
	home, err := os.Stat(networkOf(o.pid))
	if err != nil {
		return ignoreEnded(err)
	}
	// A lab is in namespaces of its own, and who calls is not in that of its processes.
	if same, err := sameFile(processesOf(o.pid), processesOf(os.Getpid())); same || err != nil {
		return ignoreEnded(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	var failures []error
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == o.pid || pid == os.Getpid() {
			continue
		}
		process, err := os.FindProcess(pid) // holds on to it, so that what is asked below is asked of this one
		if err != nil {
			continue
		}
		if its, err := os.Stat(networkOf(pid)); err == nil && os.SameFile(home, its) {
			failures = append(failures, ignoreEnded(process.Kill()))
		}
		failures = append(failures, process.Release())
	}
	return errors.Join(failures...)
}

// networkOf is the path that stands for the network of a process.
func networkOf(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/ns/net" }

// processesOf is the path that stands for the namespace of processes that a process is in.
func processesOf(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/ns/pid" }

// ignoreEnded leaves out that a process has ended meanwhile.
func ignoreEnded(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// kill ends the process and waits until it is gone, with all of its namespace.
func (o owner) kill(ctx context.Context) error {
	process, err := os.FindProcess(o.pid)
	if err != nil || !o.alive() {
		return nil // FindProcess holds on to the process, so that alive spoke of this one
	}
	defer process.Release()
	if err := process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	for o.alive() {
		var status syscall.WaitStatus
		// It may be a child of this process, which nobody else waits for.
		if _, err := syscall.Wait4(o.pid, &status, syscall.WNOHANG, nil); err != nil && !errors.Is(err, syscall.ECHILD) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d does not end: %w", o.pid, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
