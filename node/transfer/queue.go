package transfer

import "sync"

// workQueue holds tasks for shards, one at a time for each: what is enqueued waits for a
// worker, and is not enqueued again until the worker reports it as done. Callers enqueue
// again as long as there is need, so that what does not fit is forgotten.
type workQueue[T any] struct {
	tasks   chan T
	shardOf func(*T) uint16
	mu      struct {
		sync.Mutex
		underWay map[uint16]bool
	}
}

// init makes room for tasks that wait.
func (q *workQueue[T]) init(waitingMax int, shardOf func(*T) uint16) {
	q.tasks, q.shardOf = make(chan T, waitingMax), shardOf
	q.mu.underWay = map[uint16]bool{}
}

// enqueue schedules t unless its shard already has a task or the queue is full; callers
// enqueue again on the next round.
func (q *workQueue[T]) enqueue(t T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	shard := q.shardOf(&t)
	if q.mu.underWay[shard] {
		return
	}
	select {
	case q.tasks <- t:
		q.mu.underWay[shard] = true
	default:
	}
}

// done ends a shard's task.
func (q *workQueue[T]) done(shard uint16) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.mu.underWay, shard)
}

// count returns the number of tasks that wait or are under way.
func (q *workQueue[T]) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.mu.underWay)
}
