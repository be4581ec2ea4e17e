package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testTime bounds the wait for something that happens at once on an idle machine.
const testTime = time.Minute

var scenes = map[string]func() error{"run": sceneRun, "orphan": sceneOrphan, "keep": sceneKeep, "wait": sceneWait}

func sceneRun() error {
	t := newTree(slog.Default())
	for i := range 50 {
		text, err := t.run("sh", "-c", fmt.Sprintf("echo out; echo err %d >&2", i))
		if want := fmt.Sprintf("out\nerr %d\n", i); err != nil || text != want {
			return fmt.Errorf("got %q, %v; want %q", text, err, want)
		}
	}
	_, err := t.run("sh", "-c", "echo a; echo b; echo c; echo d; exit 7")
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 7: b | c | d") {
		return fmt.Errorf("a failure says: %v", err)
	}
	if _, err := t.run("no-such-program"); !errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("a missing program says: %v", err)
	}
	return nil
}

// sceneOrphan adopts a process, as the first of a process namespace would.
func sceneOrphan() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	t := newTree(slog.Default())
	text, err := t.run("sh", "-c", "sleep 0.01 >&2 & echo $!")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	return Wait(ctx, func() (bool, error) {
		_, err := os.Stat("/proc/" + strings.TrimSpace(text))
		return errors.Is(err, os.ErrNotExist), nil // collected, not a zombie
	})
}

func sceneKeep() error {
	dir, err := os.MkdirTemp("", "keep")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log := filepath.Join(dir, "log")
	t := newTree(slog.Default())
	if err := t.keep("short", log, "sh", "-c", "echo began; exit 3"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	return Wait(ctx, func() (bool, error) {
		text, err := os.ReadFile(log)
		if err != nil {
			return true, err
		}
		if !strings.HasPrefix(string(text), "began\nbegan\n") {
			return false, fmt.Errorf("the log holds %q", text)
		}
		return true, nil
	})
}

// sceneWait lives until it is killed. A program without C whose goroutines all wait for nothing would be ended by the
// runtime; one that sleeps is not.
func sceneWait() error {
	for {
		time.Sleep(time.Hour)
	}
}

func play(t *testing.T, scene string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asScene+"="+scene)
	return cmd
}

func TestTree(t *testing.T) {
	for _, scene := range []string{"run", "orphan", "keep"} {
		t.Run(scene, func(t *testing.T) {
			t.Parallel()
			if output, err := play(t, scene).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	cmd := play(t, "wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := ownerOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "owner")
	if err := first.write(file); err != nil {
		t.Fatal(err)
	}
	read, err := readOwner(file)
	if err != nil || read != first || !read.alive() {
		t.Fatalf("read %v, %v, alive %v; want %v", read, err, read.alive(), first)
	}
	// The same id at another time is somebody else, who is left alone.
	other := owner{first.pid, first.start + 1}
	if err := other.kill(t.Context()); err != nil || other.alive() || !first.alive() {
		t.Errorf("killing another: %v; alive: %v, %v", err, other.alive(), first.alive())
	}
	if err := first.kill(t.Context()); err != nil || first.alive() {
		t.Errorf("killing: %v; alive: %v", err, first.alive())
	}
	if err := first.kill(t.Context()); err != nil {
		t.Errorf("killing the dead: %v", err)
	}
}

// Commands that were run in a lab's network end with it; everything else is left alone.
func TestGuests(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a network")
	}
	host := play(t, "wait")
	host.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID}
	if err := host.Start(); err != nil {
		t.Skipf("no network can be made here: %v", err)
	}
	t.Cleanup(func() { _ = host.Process.Kill(); _ = host.Wait() })
	outside := play(t, "wait")
	guest := exec.CommandContext(t.Context(), "nsenter", "--net="+networkOf(host.Process.Pid), "--", os.Args[0])
	guest.Env = outside.Env
	if err := errors.Join(outside.Start(), guest.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = outside.Process.Kill(); _ = outside.Wait() })
	t.Cleanup(func() { _ = guest.Process.Kill() })
	owner, err := ownerOf(host.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	defer cancel()
	if err := Wait(ctx, func() (bool, error) { // until nsenter is there
		return sameFile(networkOf(guest.Process.Pid), networkOf(host.Process.Pid))
	}); err != nil {
		t.Fatal(err)
	}
	if err := owner.killGuests(); err != nil {
		t.Fatal(err)
	}
	if err := guest.Wait(); err == nil || !owner.alive() {
		t.Errorf("the guest ended with %v; its host lives: %v", err, owner.alive())
	}
	other, err := ownerOf(outside.Process.Pid)
	if err != nil || !other.alive() {
		t.Errorf("a process outside: %v", err)
	}
	// One in the machine's own network has no guests: all others would be.
	if err := other.killGuests(); err != nil || !owner.alive() {
		t.Errorf("%v; alive: %v", err, owner.alive())
	}
}

func TestStartTime(t *testing.T) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	start, err := startTime(stat)
	if err != nil || start == 0 {
		t.Errorf("got %d, %v", start, err)
	}
	fields := "1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 42 0"
	for _, test := range []struct {
		stat string
		want uint64
		err  error
	}{
		{"7 (a) b) (c) S " + fields, 42, nil},
		{"7 (a) Z " + fields, 0, errEnded},
	} {
		if got, err := startTime([]byte(test.stat)); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: got %d, %v", test.stat, got, err)
		}
	}
}

func FuzzStartTime(f *testing.F) {
	f.Add([]byte("7 (a) b) (c) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 42 0"))
	f.Add([]byte(") Z"))
	f.Fuzz(func(t *testing.T, stat []byte) {
		if start, err := startTime(stat); err != nil && start != 0 {
			t.Errorf("%d with %v", start, err)
		}
	})
}

func TestStatusText(t *testing.T) {
	if got := statusText(syscall.WaitStatus(9)); got != "killed" {
		t.Errorf("got %q", got)
	}
}
