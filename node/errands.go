package node

import "sync"

// errands are things to do for shards, one at a time for each: what is wanted waits for
// somebody who does it, and is not wanted again meanwhile. Who wants says so again as
// long as there is need, so that what does not fit is forgotten.
type errands[T any] struct {
	wants   chan T
	shardOf func(*T) uint16
	mu      struct {
		sync.Mutex
		underWay map[uint16]bool
	}
}

// init makes room for so many errands that wait.
func (e *errands[T]) init(waitingMax int, shardOf func(*T) uint16) {
	e.wants, e.shardOf = make(chan T, waitingMax), shardOf
	e.mu.underWay = map[uint16]bool{}
}

// want notes an errand, unless its shard has one already or too many wait.
func (e *errands[T]) want(errand T) {
	e.mu.Lock()
	defer e.mu.Unlock()
	shard := e.shardOf(&errand)
	if e.mu.underWay[shard] {
		return
	}
	select {
	case e.wants <- errand:
		e.mu.underWay[shard] = true
	default:
	}
}

// done says that a shard's errand is over.
func (e *errands[T]) done(shard uint16) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.mu.underWay, shard)
}

// count gives the number of errands that wait or are being run.
func (e *errands[T]) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.mu.underWay)
}
