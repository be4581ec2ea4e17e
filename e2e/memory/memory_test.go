package memory

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

var (
	long    = flag.Bool("long", false, "stop a node for many minutes, until its log has to be replaced by files")
	dataDir = flag.String("data-dir", "", "keep data folders and logs here (default: a folder that is kept on failure only)")
	binary  = flag.String("binary", "", "the tickmesh binary (default: built from this module)")
)

const (
	limitBytes = 512 << 20
	series     = 1_000_000
)

// TestStalledFollower is the promise of the package's documentation.
func TestStalledFollower(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test loads real processes for minutes")
	}
	calm, stopped, after := 10*time.Second, 45*time.Second, 10*time.Second
	if *long {
		calm, stopped, after = time.Minute, 10*time.Minute, 2*time.Minute
	}
	c := start(t)
	watch := watchMemory(c)
	defer watch.end(t)
	l := newLive(t, "http://"+c.Servers(harness.RoleRouter)[0].Addr(), series)
	step := func(name string, do func()) {
		begun := time.Now()
		do()
		t.Logf("%-28s %6.1f s; %s", name, time.Since(begun).Seconds(), watch)
	}
	step("a million series", func() { l.writeRound(t.Context()) })
	nodes := c.Servers(harness.RoleNode)
	lagging := nodes[len(nodes)-1]
	end := l.begin()
	step("writes and queries", func() { time.Sleep(calm) })
	must(t, lagging.Suspend())
	before := l.taken.Load()
	step("a node is stopped", func() { time.Sleep(stopped) })
	if l.taken.Load() == before {
		t.Error("no write was acknowledged while a node was stopped")
	}
	must(t, lagging.Resume())
	step("it goes on", func() { time.Sleep(after) })
	end()
	step("all is read", func() { l.verify(t) })
	must(t, nodes[0].Kill())
	step("another is killed; a round", func() { l.writeRound(t.Context()) })
	step("all is read again", func() { l.verify(t) })
	t.Logf("%d queries, %d not answered, the slowest in %v; %d requests were refused and sent again",
		l.queries.Load(), l.unanswered.Load(), time.Duration(l.slowest.Load()), l.refused.Load())
	if n := l.queries.Load(); n == 0 || l.unanswered.Load() > n/10 {
		t.Errorf("%d of %d queries were not answered", l.unanswered.Load(), n)
	}
	for _, s := range append(c.Servers(harness.RoleRouter), nodes[1:]...) {
		if !s.Running() {
			t.Errorf("%s has ended: %v", s.Name, s.Process().Err())
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts the cluster.
func start(t *testing.T) *harness.Cluster {
	t.Helper()
	programs := t.TempDir()
	path := *binary
	if path == "" {
		var err error
		path, err = harness.Build(t.Context(), programs)
		must(t, err)
	}
	etcd, err := harness.BuildEtcd(t.Context(), programs)
	must(t, err)
	dir, err := os.MkdirTemp(*dataDir, "tickmesh-memory-")
	must(t, err)
	c, err := harness.StartCluster(t.Context(), harness.ClusterOptions{
		Binary: path, EtcdBinary: etcd, Dir: dir, Nodes: 3, Routers: 1, Replication: 3, MemoryBytes: limitBytes,
		NodeFlags: []string{"--digest-interval", "0", "--pprof"}, RouterFlags: []string{"--pprof"},
	})
	if errors.Is(err, harness.ErrNoMemoryGroup) {
		_ = os.RemoveAll(dir)
		t.Skipf("cannot be played here: %v", err)
	}
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\ndata folders and logs are kept: %s", c.Describe(), dir)
		}
		c.Close()
		if !t.Failed() && *dataDir == "" {
			_ = os.RemoveAll(dir)
		}
	})
	must(t, c.WaitReady(t.Context()))
	return c
}

// memoryWatch samples the memory of control groups.
type memoryWatch struct {
	servers []*harness.Server
	stop    chan struct{}
	ended   sync.WaitGroup

	mu struct {
		sync.Mutex
		anonymousMax []int64 // by server
	}
	profiled []int64 // bytes at which the last profile of a server was kept
}

const (
	watchInterval = 100 * time.Millisecond
	// profileBytes is the memory from which on profiles are kept beside the logs, one for each step.
	profileBytes, profileStep = 352 << 20, 32 << 20
)

func watchMemory(c *harness.Cluster) *memoryWatch {
	w := &memoryWatch{servers: append(c.Servers(harness.RoleNode), c.Servers(harness.RoleRouter)...), stop: make(chan struct{})}
	w.mu.anonymousMax, w.profiled = make([]int64, len(w.servers)), make([]int64, len(w.servers))
	w.ended.Go(func() {
		ticker := time.NewTicker(watchInterval)
		defer ticker.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-ticker.C:
				w.sample()
			}
		}
	})
	return w
}

func (w *memoryWatch) sample() {
	for i, s := range w.servers {
		if n, err := s.Group.AnonymousBytes(); err == nil {
			w.mu.Lock()
			w.mu.anonymousMax[i] = max(w.mu.anonymousMax[i], n)
			w.mu.Unlock()
			if n >= max(profileBytes, w.profiled[i]+profileStep) {
				w.profiled[i] = n
				w.ended.Go(func() { profile(s, n) })
			}
		}
	}
}

// profile keeps what a server has in its heap and what it counts.
func profile(s *harness.Server, bytes int64) {
	for _, path := range []string{"/debug/pprof/heap", "/metrics"} {
		answer, err := http.Get("http://" + s.HTTPAddr() + path)
		if err != nil {
			continue // it may have ended
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		_ = os.WriteFile(fmt.Sprintf("%s.%dMiB.%s", s.LogPath(), bytes>>20, filepath.Base(path)), text, 0o600)
	}
}

// String returns the peaks of anonymous memory until now.
func (w *memoryWatch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var text strings.Builder
	text.WriteString("most anonymous MiB:")
	for i, s := range w.servers {
		fmt.Fprintf(&text, " %s %d", s.Name, w.mu.anonymousMax[i]>>20)
	}
	return text.String()
}

// end checks that the kernel has ended nothing.
func (w *memoryWatch) end(t *testing.T) {
	t.Helper()
	close(w.stop)
	w.ended.Wait()
	for _, s := range w.servers {
		kills, err := s.Group.Kills()
		if err != nil || kills != 0 {
			t.Errorf("%s: the kernel has ended %d processes because %d bytes were full (%v)", s.Name, kills, limitBytes, err)
		}
		if peak, err := s.Group.PeakBytes(); err == nil {
			t.Logf("%s: at most %d MiB of %d, page cache included", s.Name, peak>>20, limitBytes>>20)
		}
	}
}
