package storage

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/pagelog"
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
	merged := false
	n.beforeSegment(func(string) error {
		if !merged { // flushes of this create segments, too
			merged = true
			more(2 * pagelog.GenerationsMax)
		}
		return nil
	})
	n.compactAll()
	if !merged {
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
