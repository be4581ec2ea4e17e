package harness

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell starts a shell script and returns the process with its log in a file.
func shell(t *testing.T, script string, change func(*ProcessOptions)) *Process {
	t.Helper()
	options := ProcessOptions{Path: "/bin/sh", Args: []string{"-c", script}, LogPath: filepath.Join(t.TempDir(), "log")}
	if change != nil {
		change(&options)
	}
	process, err := StartProcess(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	return process
}

func TestProcessEnds(t *testing.T) {
	process := shell(t, "echo out; echo err >&2; exit 3", nil)
	var exit *exec.ExitError
	if err := process.Err(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Fatalf("exit code 3 gives %v", err)
	}
	if text := process.LogTail(100); text != "out\nerr\n" {
		t.Fatalf("log %q", text)
	}
	if text := process.LogTail(4); text != "err\n" {
		t.Fatalf("tail %q", text)
	}
	if !process.Exited() || process.KilledBy(syscall.SIGKILL) {
		t.Fatal("it has ended, and by itself")
	}
}

func TestKillAndTerminate(t *testing.T) {
	process := shell(t, "exec sleep 1000", nil)
	if process.Exited() {
		t.Fatal("it has ended already")
	}
	process.Kill()
	if !process.KilledBy(syscall.SIGKILL) {
		t.Fatal("not killed by SIGKILL")
	}
	process.Kill() // a second time is harmless

	polite := shell(t, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done", nil)
	waitForLog(t, polite, "ready")
	if err := polite.Terminate(time.Minute); err != nil {
		t.Fatalf("a clean end gives %v", err)
	}
	stubborn := shell(t, "trap '' TERM; echo ready; while :; do sleep 0.01; done", nil)
	waitForLog(t, stubborn, "ready")
	if err := stubborn.Terminate(50 * time.Millisecond); !errors.Is(err, ErrStopTimeout) {
		t.Fatalf("no end gives %v", err)
	}
	if !stubborn.Exited() {
		t.Fatal("it still runs")
	}
}

func waitForLog(t *testing.T, process *Process, text string) {
	t.Helper()
	for !strings.Contains(process.LogTail(100), text) {
		if process.Exited() || t.Context().Err() != nil {
			t.Fatalf("ended without %q: %v", text, process.Err())
		}
		time.Sleep(time.Millisecond)
	}
}

func TestPinning(t *testing.T) {
	available, err := AvailableCPUs()
	if err != nil {
		t.Fatal(err)
	}
	last := available[len(available)-1:]
	process := shell(t, "grep Cpus_allowed_list /proc/self/status", func(o *ProcessOptions) { o.CPUs = last })
	if err := process.Err(); err != nil {
		t.Fatal(err)
	}
	if fields := strings.Fields(process.LogTail(100)); len(fields) != 2 || fields[1] != last.String() {
		t.Fatalf("pinned to %s, the process sees %q", last, fields)
	}
	if again, err := AvailableCPUs(); err != nil || again.String() != available.String() {
		t.Fatalf("this process may now use %s, not %s (%v)", again, available, err)
	}
}

func TestSplitCPUs(t *testing.T) {
	server, client, shared, err := SplitCPUs(CPUSet{0, 1, 2, 3}, 2)
	if err != nil || server.String() != "0,1" || client.String() != "2,3" || shared {
		t.Fatal(server, client, shared, err)
	}
	server, client, shared, err = SplitCPUs(CPUSet{4, 6}, 2)
	if err != nil || server.String() != "4,6" || client.String() != "4,6" || !shared {
		t.Fatal(server, client, shared, err)
	}
	for _, count := range []int{0, 3, -1} {
		if _, _, _, err := SplitCPUs(CPUSet{0, 1}, count); err == nil {
			t.Errorf("%d of 2 cores are given", count)
		}
	}
}

func TestUsageGrowsWithWork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	process := shell(t, "dd if=/dev/zero of="+path+" bs=1M count=8 2>/dev/null; echo done; exec sleep 1000", nil)
	waitForLog(t, process, "done")
	usage, err := process.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if usage.RSSBytes <= 0 || usage.RSSMaxBytes < usage.RSSBytes || usage.RSSAnonBytes+usage.RSSFileBytes > usage.RSSMaxBytes {
		t.Fatalf("%+v", usage)
	}
	if size, err := DiskBytes(filepath.Dir(path)); err != nil || size < 8<<20 || size > 9<<20 {
		t.Fatalf("8 MiB take %d bytes on disk (%v)", size, err)
	}
	process.Kill()
	if _, err := process.Usage(); err == nil {
		t.Fatal("a process that has ended still has costs")
	}
}

func TestParseStatCPU(t *testing.T) {
	const rest = " S 1 1 1 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 100 0 0"
	for _, name := range []string{"sh", "a b", "x) R 1 (y"} {
		cpu, err := parseStatCPU([]byte("7 (" + name + ")" + rest))
		if err != nil || cpu != 2*time.Second {
			t.Errorf("command %q: %v, %v", name, cpu, err)
		}
	}
}

func FuzzParseProc(f *testing.F) {
	f.Add([]byte("7 (sh) S 1 1 1 0 -1 4194560 100 0 0 0 150 50 0"))
	f.Add([]byte("VmRSS:\t  100 kB\nrchar: 5\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if cpu, err := parseStatCPU(text); err != nil && cpu != 0 {
			t.Fatal("an error with a value")
		}
		for name, value := range parseFields(text) {
			if !strings.Contains(string(text), name+":") {
				t.Fatalf("%q: %d is made up", name, value)
			}
		}
	})
}

func TestMemoryGroupLimits(t *testing.T) {
	group, err := NewMemoryGroup(32 << 20)
	if errors.Is(err, ErrNoMemoryGroup) {
		t.Skipf("cannot be tested here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := group.Close(); err != nil {
			t.Error(err)
		}
	}()
	// It is in the group when it begins; tail has to hold a line of 128 MiB.
	process := shell(t, "grep tickmesh-e2e- /proc/self/cgroup; head -c 134217728 /dev/zero | tail -n 1 | wc -c", func(o *ProcessOptions) { o.Group = group })
	<-process.Done()
	if kills, err := group.Kills(); err != nil || kills == 0 {
		t.Fatalf("128 MiB in a group of 32 MiB: %d kills (%v), output %q", kills, err, process.LogTail(100))
	}
	if output := process.LogTail(1000); !strings.Contains(output, "/tickmesh-e2e-") {
		t.Fatalf("the process began outside of the group: %q", output)
	}
}

func TestWaitReady(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	url := "http://" + listener.Addr().String()
	running := shell(t, "exec sleep 1000", nil)
	if err := WaitReady(t.Context(), running, url); err != nil || calls < 3 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	ended := shell(t, "exit 1", nil)
	<-ended.Done()
	if err := WaitReady(t.Context(), ended, "http://127.0.0.1:1"); !errors.Is(err, ErrExited) {
		t.Fatalf("a server that has ended: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := WaitReady(ctx, running, "http://127.0.0.1:1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a server that never answers: %v", err)
	}
}

func TestFreeAddressesDiffer(t *testing.T) {
	addresses, err := FreeAddresses(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, address := range addresses {
		if seen[address] {
			t.Fatalf("%s twice", address)
		}
		seen[address] = true
	}
}

func TestModuleDir(t *testing.T) {
	dir, err := ModuleDir(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
}

func TestVoluntarySwitchesGrowWithSleeps(t *testing.T) {
	process := shell(t, "for i in 1 2 3 4 5; do sleep 0.001; done; echo done; exec sleep 1000", nil)
	waitForLog(t, process, "done")
	// It waits for each of its children.
	if n, err := process.VoluntarySwitches(); err != nil || n < 5 {
		t.Fatalf("%d, %v", n, err)
	}
}
