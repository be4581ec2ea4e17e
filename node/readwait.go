package node

import (
	"fmt"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/commit"
)

// readWait is one caller's wait for the confirmation of some shards.
type readWait struct {
	index     []uint64 // to be applied, by place in the caller's list
	errs      []error
	remaining atomic.Int32
	done      chan struct{}
}

func newReadWait(shards int) *readWait {
	w := &readWait{index: make([]uint64, shards), errs: make([]error, shards), done: make(chan struct{}, 1)}
	w.remaining.Store(int32(shards))
	return w
}

func (w *readWait) finish(at int, index uint64, err error) {
	w.index[at], w.errs[at] = index, err
	if w.remaining.Add(-1) == 0 {
		w.done <- struct{}{}
	}
}

// failReads answers reads while the log takes nothing: others may lead meanwhile.
func failReads(reads []commit.Read) {
	for _, s := range reads {
		s.For.(*readWait).finish(s.Place, 0, errNoLog)
	}
}

// errNoLog answers reads that cannot be confirmed because the log takes nothing.
var errNoLog = fmt.Errorf("%w: reads cannot be confirmed while the log takes nothing", series.ErrUnavailable)
