package storage

import (
	"math"
	"math/rand/v2"
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
