package storage

import (
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestFlushesGoOnDuringAMerge: while segments are merged more generations of the page log
// are flushed than there may be at a time.
func TestFlushesGoOnDuringAMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	logs := newLabLogs()
	n := newLabNode(t, logs)
	defer n.end()
	n.hosts[0] = true
	more := func(times int) {
		for range times {
			logs[0].write(rng)
			n.apply(0, math.MaxInt)
			n.seal()
		}
	}
	more(5)
	var merging atomic.Bool
	n.before = func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && strings.Contains(op.Name, dirSegments) && merging.CompareAndSwap(true, false) {
			more(2 * pagelog.GenerationsMax)
		}
		return nil
	}
	merging.Store(true)
	n.compactAll()
	if merging.Load() {
		t.Fatal("nothing was merged")
	}
	n.check("merged")
}

// TestFlushWaitsForTheSweeper: generations that readers have left, and nobody has given
// up yet, are no reason to refuse a flush.
func TestFlushWaitsForTheSweeper(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	logs := newLabLogs()
	n := newLabNode(t, logs)
	defer n.end()
	n.hosts[0] = true
	held := n.e.files.Acquire()
	for len(n.e.pages.Sizes()) < pagelog.GenerationsMax {
		logs[0].write(rng)
		n.apply(0, math.MaxInt)
		n.seal()
	}
	for n.e.pages.Sizes()[pagelog.GenerationsMax-1].Bytes == 0 {
		logs[0].write(rng)
		n.apply(0, math.MaxInt)
		if err := n.checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	sweeper, late := &n.e.files.Sweeper, make(chan struct{})
	sweeper.Add([]func(){func() { <-late }})
	n.e.files.Leave(held)
	flushed := make(chan error, 1)
	go func() { flushed <- n.e.Flush() }()
	for !sweeper.Awaited() && len(flushed) == 0 {
		runtime.Gosched()
	}
	close(late)
	if err := <-flushed; err != nil {
		t.Fatal(err)
	}
	n.check("flushed")
}
