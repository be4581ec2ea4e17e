package attack

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Attackers and good clients stand for other machines, so that neither may compete with the server for the processors
// of this one: attackers run when nobody else wants to (SCHED_IDLE), and good clients before all others (SCHED_RR),
// so that what they measure is the time of the server and not their own wait for a processor.
const (
	attackerPolicy = unix.SCHED_IDLE
	goodPolicy     = unix.SCHED_RR
	goodPriority   = 1 // the least of that policy
)

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

// stepBack gives all threads of this process but one, and so those to come, the attackers' place.
func stepBack(but int) {
	schedule(but, unix.SchedAttr{Policy: attackerPolicy})
}

// stepForward gives all threads of this process the place of good clients, or the best that it may have.
func stepForward() {
	if !schedule(0, unix.SchedAttr{Policy: goodPolicy, Priority: goodPriority}) {
		schedule(0, unix.SchedAttr{Nice: -20})
	}
}

// schedule sets the attributes of all threads of this process but one, and reports whether none was refused.
func schedule(but int, attributes unix.SchedAttr) bool {
	// A thread that another one starts meanwhile has the old ones, so go round until a pass finds no new one.
	seen, allowed := map[string]bool{}, true
	for found := true; found; {
		found = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return true // without /proc there is no such test
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil || id == but || seen[task.Name()] {
				continue
			}
			seen[task.Name()], found = true, true
			if errors.Is(unix.SchedSetAttr(id, &attributes, 0), unix.EPERM) { // it may have ended, too
				allowed = false
			}
		}
	}
	return allowed
}

// TestServersKeepTheirPriority shows that attackers wait for servers, not servers for attackers, nor good clients for
// either where this process may say so.
func TestServersKeepTheirPriority(t *testing.T) {
	of := func(pid int) *unix.SchedAttr {
		attributes, err := unix.SchedGetAttr(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		return attributes
	}
	g := newGround(t, *seed, false)
	c := startGood(t, g)
	c.take(t) // until it has begun
	server, good, attackers := of(g.server.PID()), of(c.command.Process.Pid), of(0)
	if server.Policy != unix.SCHED_NORMAL || attackers.Policy != attackerPolicy {
		t.Errorf("the server has %+v, attackers %+v", server, attackers)
	}
	if good.Policy != goodPolicy && (good.Policy != unix.SCHED_NORMAL || good.Nice > server.Nice) {
		t.Errorf("good clients have %+v, the server %+v", good, server)
	}
}
