package attack

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// attackerNice is the priority of attackers: they stand for other machines, and leave the
// processors of this one to the server and its good clients, who do not wait for them.
const attackerNice = 19

// launcher is the one thread that keeps the priority that this process was started with: who
// is started from it has that.
var launcher struct {
	once  sync.Once
	calls chan func()
}

// launch runs a function that starts a process on the launcher.
func launch(start func()) {
	launcher.once.Do(func() {
		launcher.calls = make(chan func())
		thread := make(chan int)
		go func() {
			runtime.LockOSThread()
			thread <- unix.Gettid()
			for call := range launcher.calls {
				call()
			}
		}()
		stepBack(<-thread)
	})
	done := make(chan struct{})
	launcher.calls <- func() { defer close(done); start() }
	<-done
}

// stepBack lowers the priority of all threads of this process but one, and so of those to come.
func stepBack(but int) {
	// A thread that another one starts meanwhile has the old priority, so go round until a
	// pass finds no new one.
	seen := map[string]bool{}
	for found := true; found; {
		found = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return // without /proc there is no such test
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil || id == but || seen[task.Name()] {
				continue
			}
			seen[task.Name()], found = true, true
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, attackerNice) // it may have ended
		}
	}
}

// TestServersKeepTheirPriority shows that attackers wait for servers, not servers for attackers.
func TestServersKeepTheirPriority(t *testing.T) {
	kernels := func(pid int) int { // Linux answers 20 - nice
		priority, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
		if err != nil {
			t.Fatal(err)
		}
		return 20 - priority
	}
	g := newGround(t, *seed, false)
	c := startGood(t, g)
	before := kernels(g.server.PID())
	if good := kernels(c.command.Process.Pid); good != before || kernels(0) < before+1 {
		t.Errorf("the server has priority %d, good clients %d, attackers %d", before, good, kernels(0))
	}
}
