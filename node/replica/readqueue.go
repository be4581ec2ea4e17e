package replica

// readQueue gathers reads: while one confirmation is under way, later reads wait for
// the next.
type readQueue struct {
	tokens   []uint64 // those under way first
	underWay int
	number   uint64 // of the confirmation under way
}

func (q *readQueue) drain() []uint64 {
	tokens := q.tokens
	q.tokens, q.underWay = nil, 0
	return tokens
}
