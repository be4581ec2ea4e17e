package rpc

// queue holds envelopes in order, bounded by their bytes. It is not safe for
// concurrent use.
type queue struct {
	envelopes  [][]byte // from head on
	head       int
	bytes      int // of envelopes with envelopeOverhead each
	dropped    uint64
	bytesLimit int
}

// envelopeOverhead is what an envelope costs besides its bytes: the bound is one of
// memory.
const envelopeOverhead = 64

func costOf(envelope []byte) int { return len(envelope) + envelopeOverhead }

// push adds an envelope, dropping the oldest ones until it fits. One that is larger
// than the limit is dropped itself.
func (q *queue) push(envelope []byte) {
	if costOf(envelope) > q.bytesLimit {
		q.dropped++
		return
	}
	q.trim(q.bytesLimit - costOf(envelope))
	if q.head > 0 && len(q.envelopes) == cap(q.envelopes) {
		n := copy(q.envelopes, q.envelopes[q.head:])
		clear(q.envelopes[n:])
		q.envelopes, q.head = q.envelopes[:n], 0
	}
	q.envelopes = append(q.envelopes, envelope)
	q.bytes += costOf(envelope)
}

// trim drops the oldest envelopes until at most so many bytes are left.
func (q *queue) trim(bytesMax int) {
	for q.bytes > bytesMax {
		q.pop()
		q.dropped++
	}
}

func (q *queue) pop() []byte {
	envelope := q.envelopes[q.head]
	q.envelopes[q.head] = nil
	q.head++
	q.bytes -= costOf(envelope)
	if q.head == len(q.envelopes) {
		q.envelopes, q.head = q.envelopes[:0], 0
	}
	return envelope
}

// take moves the oldest envelopes to dst: at least one if there is one, else as many
// as fit into bytesMax.
func (q *queue) take(dst [][]byte, bytesMax int) [][]byte {
	for taken := 0; q.head < len(q.envelopes); {
		taken += costOf(q.envelopes[q.head])
		if taken > bytesMax && len(dst) > 0 {
			break
		}
		dst = append(dst, q.pop())
	}
	return dst
}
