package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrStopTimeout is returned by Terminate when a process did not end in time and
// had to be killed.
var ErrStopTimeout = errors.New("the process did not end in time and was killed")

// ProcessOptions describes what to run and under which limits.
type ProcessOptions struct {
	Path string
	Args []string
	Env  []string // added to the environment of this process
	Dir  string   // working directory; "" is this process's
	CPUs CPUSet   // cores that the process may use; empty: all
	// Group limits the process's memory; nil: no limit.
	Group *MemoryGroup
	// LogPath names the file to which standard output and standard error are
	// appended; "" drops them.
	LogPath string
}

// Process is a running child process. Its methods may be called from any
// goroutine.
type Process struct {
	options ProcessOptions
	command *exec.Cmd
	done    chan struct{}
	err     error // of Wait; valid once done is closed
}

// StartProcess starts a child process. It is killed by the kernel when this
// process dies.
func StartProcess(options ProcessOptions) (*Process, error) {
	command := exec.Command(options.Path, options.Args...)
	command.Dir = options.Dir
	command.Env = append(os.Environ(), options.Env...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if options.LogPath != "" {
		log, err := os.OpenFile(options.LogPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return nil, err
		}
		defer log.Close()
		command.Stdout, command.Stderr = log, log
	}
	start := func() error { return startPinned(command, options.CPUs) }
	if group := options.Group; group != nil {
		pinned := start
		start = func() error { return group.start(command, pinned) }
	}
	if err := start(); err != nil {
		if command.Process != nil {
			_ = command.Process.Kill()
			_ = command.Wait()
		}
		return nil, fmt.Errorf("start %s: %w", options.Path, err)
	}
	process := &Process{options: options, command: command, done: make(chan struct{})}
	go func() {
		process.err = command.Wait()
		close(process.done)
	}()
	return process, nil
}

// startPinned forks from a thread that has the wanted affinity, because a child
// inherits it: pinning after the start would miss the threads that already run.
func startPinned(command *exec.Cmd, cpus CPUSet) error {
	if len(cpus) == 0 {
		return command.Start()
	}
	runtime.LockOSThread()
	var old unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	wanted := cpus.kernel()
	if err := unix.SchedSetaffinity(0, &wanted); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("pin to cores %s: %w", cpus, err)
	}
	startErr := command.Start()
	if err := unix.SchedSetaffinity(0, &old); err != nil {
		// The thread stays locked: a wrongly pinned thread must not go back to
		// the scheduler.
		return errors.Join(startErr, err)
	}
	runtime.UnlockOSThread()
	return startErr
}

// PID is the process id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exited reports whether the process has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Err returns how the process ended: nil for exit code 0, else *exec.ExitError.
// It waits for the end.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// KilledBy reports whether the process was ended by the signal. It waits for the end.
func (p *Process) KilledBy(signal syscall.Signal) bool {
	<-p.done
	status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// Kill ends the process by SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // fails only when it has ended already
	<-p.done
}

// Suspend stops the process where it is (SIGSTOP) until Resume. It waits until the
// kernel has stopped it.
func (p *Process) Suspend() error {
	if err := p.command.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("suspend process %d: %w", p.PID(), err)
	}
	for !p.Exited() {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		if err != nil {
			return fmt.Errorf("suspend process %d: %w", p.PID(), err)
		}
		if _, rest, ok := bytes.Cut(stat, []byte(") ")); ok && rest[0] == 'T' {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("suspend process %d: it has ended", p.PID())
}

// Resume lets a suspended process go on.
func (p *Process) Resume() error {
	if err := p.command.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("resume process %d: %w", p.PID(), err)
	}
	return nil
}

// Terminate sends SIGTERM and waits for the end. It returns the process's own
// error, or ErrStopTimeout when it had to be killed.
func (p *Process) Terminate(timeout time.Duration) error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !p.Exited() {
		return err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.err
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("%w (%s after SIGTERM)", ErrStopTimeout, timeout)
	}
}

// WrittenBytes is what the process sent to block devices in its whole life, known
// to the kernel when it ends. It waits for the end.
func (p *Process) WrittenBytes() int64 {
	<-p.done
	usage, ok := p.command.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return usage.Oublock * 512 // getrusage counts blocks of 512 bytes
}

// LogTail returns the last bytes of the process's output, at most bytesMax.
func (p *Process) LogTail(bytesMax int64) string {
	if p.options.LogPath == "" {
		return ""
	}
	file, err := os.Open(p.options.LogPath)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > bytesMax {
		if _, err := file.Seek(-bytesMax, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(io.LimitReader(file, bytesMax))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
