package attack

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// member is one process under attack and what it was told to listen on.
type member struct {
	*harness.Process
	name           string
	rpc, http      string // etcd: for clients, for members
	knownAddresses []string
	group          *harness.MemoryGroup // nil: memory is sampled instead
	kills          int64                // of its group that were told of
	start          func(*testing.T)     // the next process in its place
}

// errEnded is what a process under attack has no excuse for.
var errEnded = errors.New("has ended")

// ended returns how the process has ended (errEnded), with what its log tells; nil while it runs.
func (m *member) ended() error {
	if !m.Exited() {
		return nil
	}
	how := "exit status 0"
	if err := m.Err(); err != nil {
		how = err.Error()
	}
	if m.group != nil {
		switch kills, err := m.group.Kills(); {
		case err != nil:
			how += ", and its control group does not tell why: " + err.Error()
		case kills > m.kills:
			how += ", by the kernel, because its control group was full"
		}
	}
	return fmt.Errorf("%s %w: %s; its log:\n%s", m.name, errEnded, how, firstTrouble(m.Process))
}

// firstTrouble is where the log of a process tells of a crash, or its end.
func firstTrouble(p *harness.Process) string {
	text := p.LogTail(1 << 20)
	for _, sign := range []string{"fatal error:", "panic:", "goroutine stack exceeds"} {
		if at := strings.Index(text, sign); at >= 0 {
			return text[at:min(len(text), at+1500)]
		}
	}
	return text[max(0, len(text)-1500):]
}

// ended returns how processes under attack have ended; nil while all run.
func (g *ground) ended() error {
	var all []error
	for _, p := range g.processes {
		all = append(all, p.ended())
	}
	return errors.Join(all...)
}

// alive fails the test where a process has ended, and starts the next.
func (g *ground) alive(t *testing.T) {
	t.Helper()
	if usage, err := g.server.Usage(); err == nil {
		g.peak = max(g.peak, usage.RSSMaxBytes)
	}
	fell := false
	for _, p := range g.processes {
		err := p.ended()
		if err == nil {
			continue
		}
		t.Error(err)
		if p.group != nil {
			if p.kills, err = p.group.Kills(); err != nil {
				t.Error(err)
			}
		}
		p.start(t)
		fell = true
	}
	if fell {
		g.awaitReady(t)
		pause(t, time.Second) // good clients notice that it is there again
		g.fell = true
	}
}

// awaitReady waits until the server serves.
func (g *ground) awaitReady(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	if err := harness.WaitReady(ctx, g.server.Process, "http://"+g.at.HTTP+"/readyz"); err != nil {
		t.Fatalf("%v\n%s", err, firstTrouble(g.server.Process))
	}
}

// mustLive ends the test where a process has ended: what it asks would wait for nobody.
func (g *ground) mustLive(t *testing.T) {
	t.Helper()
	if g.ended() != nil {
		g.alive(t)
		t.FailNow()
	}
}

// revived reports whether a process has ended, of which something that has failed may be the first sign, and starts the
// next: the kernel closes the connections of a process before it tells that it has ended.
func (g *ground) revived(t *testing.T) bool {
	t.Helper()
	select {
	case <-g.server.Done():
	case <-time.After(endedMax):
	}
	if g.ended() == nil {
		return false
	}
	g.alive(t)
	return true
}

// endedMax is how long after its first sign the end of a process may be told.
const endedMax = time.Second

// TestEndIsTold: whoever waits for a server that ends is told at once, and how.
func TestEndIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		script  string
		grouped bool
		want    []string
	}{
		"a panic":              {"echo line; echo panic: at once; exit 2", false, []string{"it has ended: exit status 2; its log:\npanic: at once\n"}},
		"a success":            {"echo farewell", false, []string{"exit status 0; ", "farewell"}},
		"a signal":             {"kill -KILL $$", true, []string{"signal: killed; "}},
		"a full control group": {"echo at work; exec tail /dev/zero", true, []string{"signal: killed, by the kernel, because its control group was full; ", "at work"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &member{name: "it"}
			if c.grouped {
				if p.group = memoryGroup(t, 32<<20); p.group == nil {
					return
				}
				defer p.group.Close()
			}
			start := func(script string) {
				t.Helper()
				var err error
				options := harness.ProcessOptions{Path: "/bin/sh", Args: []string{"-c", script}, Group: p.group, LogPath: filepath.Join(t.TempDir(), "log")}
				launch(func() { p.Process, err = harness.StartProcess(options) })
				if err != nil {
					t.Fatal(err)
				}
			}
			g := &ground{processes: []*member{p}}
			start("exec sleep 1000")
			if err := g.ended(); err != nil {
				t.Errorf("it runs: %v", err)
			}
			p.Kill()
			start(c.script)
			<-p.Done()
			tries := 0
			err := g.until(t.Context(), func() error { tries++; return errAgain })
			if !errors.Is(err, errEnded) || tries != 1 {
				t.Errorf("%v, after %d tries", err, tries)
			}
			for _, want := range c.want {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%v does not contain %q", err, want)
				}
			}
		})
	}
}
