package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// goodKey names the environment variable that makes a process of this program the good
// clients of the server that it describes.
const goodKey = "TICKMESH_ATTACK_GOOD"

// goodTarget is what the good clients know of their server.
type goodTarget struct {
	Address string
	Users   bool
	Mark    string   // of their own names
	Secrets []string // of others
}

// goodMain is a process of good clients: it tells what they have met at each line that it is
// sent, and ends with its input. They have a process of their own, since in that of the attackers
// they would wait for those.
func goodMain(target string) error {
	stepForward()
	var to goodTarget
	if err := json.Unmarshal([]byte(target), &to); err != nil {
		return err
	}
	g := &ground{users: to.Users, marks: marks{good: to.Mark}, spy: newSpy(to.Secrets...)}
	g.at.HTTP = to.Address
	c := &good{g: g, took: map[string][]time.Duration{}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { c.run(ctx, "write", c.write) })
	all.Go(func() { c.run(ctx, "read", c.read) })
	answers := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := answers.Encode(c.tell()); err != nil {
			return err
		}
	}
	cancel()
	all.Wait()
	return nil
}

// clients are the good clients, as the attack sees them.
type clients struct {
	g        *ground
	command  *exec.Cmd
	ask      io.WriteCloser
	answers  *json.Decoder
	problems []string // that were not reported yet
}

func startGood(t *testing.T, g *ground) *clients {
	t.Helper()
	about := goodTarget{Address: g.at.HTTP, Users: g.users, Mark: g.marks.good}
	if g.users {
		about.Secrets = []string{g.secret, g.marks.evil}
	}
	target, err := json.Marshal(about)
	if err != nil {
		t.Fatal(err)
	}
	c := &clients{g: g, command: exec.Command(os.Args[0])}
	c.command.Env = append(os.Environ(), goodKey+"="+string(target))
	c.command.Stderr = os.Stderr
	c.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.ask, err = c.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	answers, err := c.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.answers = json.NewDecoder(answers)
	launch(func() { err = c.command.Start() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	return c
}

func (c *clients) stop() {
	if c.command == nil {
		return
	}
	c.ask.Close()
	_ = c.command.Wait() // what they met has been told
	c.command = nil
}

// latencies are percentiles of what good clients have waited.
type latencies struct {
	count    int
	p50, p99 time.Duration
	max      time.Duration
}

func (l latencies) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
	return fmt.Sprintf("%d, median %v, P99 %v, at most %v", l.count, round(l.p50), round(l.p99), round(l.max))
}

// take returns what was measured since the last time.
func (c *clients) take(t *testing.T) map[string]latencies {
	t.Helper()
	var met told
	_, err := io.WriteString(c.ask, "\n")
	if err == nil {
		err = c.answers.Decode(&met)
	}
	if err != nil {
		t.Fatalf("good clients: %v", err)
	}
	c.problems = append(c.problems, met.Problems...)
	for _, leak := range met.Leaks {
		t.Errorf("another's data or name is shown to good clients: %s", leak)
	}
	all := map[string]latencies{}
	for kind, took := range met.Took {
		if n := len(took); n > 0 {
			all[kind] = latencies{n, took[n/2], took[n*99/100], took[n-1]}
		}
	}
	return all
}

// report fails the test for what good clients were refused since the last report, unless the
// server fell, which has been told.
func (c *clients) report(t *testing.T) {
	t.Helper()
	if c.g.fell {
		c.g.fell, c.problems = false, nil
	}
	for _, problem := range c.problems {
		t.Errorf("a good client is not served: %s", problem)
	}
	c.problems = nil
}
