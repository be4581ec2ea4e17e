package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// restartPause is how long a program that has ended is left alone before it is started
// again, as a machine's service manager would.
const restartPause = time.Second

// A tree starts processes in the first process of a process namespace. That one is
// also given every orphan of the namespace, and must collect them: a tree does it for
// all at once, so that nobody may call Wait of a command started elsewhere.
type tree struct {
	log *slog.Logger
	mu  struct {
		sync.Mutex
		ended map[int]chan syscall.WaitStatus // by process id; of those that start knows
	}
}

// newTree begins to collect ended processes, as long as this process lives.
func newTree(log *slog.Logger) *tree {
	t := &tree{log: log}
	t.mu.ended = map[int]chan syscall.WaitStatus{}
	// One is enough: collect takes all there are.
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	go func() {
		for range children {
			t.collect()
		}
	}()
	return t
}

func (t *tree) collect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if ended, ok := t.mu.ended[pid]; ok {
			ended <- status
			delete(t.mu.ended, pid)
		}
	}
}

// start starts cmd, whose streams must be files or nil. The channel gets its status
// once, when it has ended.
func (t *tree) start(cmd *exec.Cmd) (<-chan syscall.WaitStatus, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan syscall.WaitStatus, 1)
	t.mu.ended[cmd.Process.Pid] = ended
	return ended, nil
}

// run runs a short program to its end and returns what it wrote. An error holds the
// output's end.
func (t *tree) run(name string, args ...string) (string, error) {
	fd, err := unix.MemfdCreate("output", unix.MFD_CLOEXEC)
	if err != nil {
		return "", err
	}
	output := os.NewFile(uintptr(fd), "output")
	defer output.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = output, output
	ended, err := t.start(cmd)
	if err != nil {
		return "", err
	}
	status := <-ended
	if _, err := output.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	text, err := io.ReadAll(output)
	if err == nil && status != 0 {
		err = fmt.Errorf("%s %s: %s: %s", name, strings.Join(args, " "), statusText(status), lastLines(text, 3))
	}
	return string(text), err
}

// keep starts a program, with its output appended to the file log, and starts it
// again whenever it ends.
func (t *tree) keep(name, log string, argv ...string) error {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	begin := func() (<-chan syscall.WaitStatus, error) {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = file, file
		return t.start(cmd)
	}
	ended, err := begin()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	go func() {
		for {
			status := <-ended
			t.log.Warn("a program has ended and will be started again", "program", name, "status", statusText(status))
			time.Sleep(restartPause)
			if ended, err = begin(); err != nil {
				t.log.Error("a program cannot be started again", "program", name, "error", err)
				return
			}
		}
	}()
	return nil
}

func statusText(status syscall.WaitStatus) string {
	if status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

// lastLines returns the last n lines of text, in one line.
func lastLines(text []byte, n int) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte{'\n'})
	lines = lines[max(0, len(lines)-n):]
	return string(bytes.Join(lines, []byte(" | ")))
}
