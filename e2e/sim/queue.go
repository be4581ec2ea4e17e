package sim

// event is something that happens at a time. Events of one time happen in the order
// in which they were made.
type event struct {
	at  int64 // µs
	seq uint64
	do  func()
}

// queue is a binary heap of events.
type queue struct {
	events []event
	seq    uint64
}

func (q *queue) before(i, j int) bool {
	a, b := &q.events[i], &q.events[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (q *queue) push(at int64, do func()) {
	q.seq++
	q.events = append(q.events, event{at, q.seq, do})
	i := len(q.events) - 1
	for i > 0 && q.before(i, (i-1)/2) {
		parent := (i - 1) / 2
		q.events[i], q.events[parent] = q.events[parent], q.events[i]
		i = parent
	}
}

func (q *queue) pop() event {
	top, last := q.events[0], len(q.events)-1
	q.events[0] = q.events[last]
	q.events[last] = event{}
	q.events = q.events[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if q.before(child, least) {
				least = child
			}
		}
		if least == i {
			return top
		}
		q.events[i], q.events[least] = q.events[least], q.events[i]
		i = least
	}
}
