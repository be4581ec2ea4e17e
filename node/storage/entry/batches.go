package entry

import (
	"encoding/binary"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
)

// The body of an entry of samples is
//
//	varint time, then for each batch:
//	    uvarint session; unless it is 0, uvarint counter
//	    uvarint length, encoded batch
//
// The time, in ms, is that of the leader's clock when it made the entry. It ages
// batch ids, and is the only time that applying an entry knows: replicas that
// looked at their own clocks would come to differ.

// AppendTime begins the body of an entry of samples.
func AppendTime(dst []byte, timeMs int64) []byte { return binary.AppendVarint(dst, timeMs) }

// AppendBatchHeader appends what stands before a batch of so many bytes.
func AppendBatchHeader(dst []byte, id series.BatchID, batchBytes int) []byte {
	dst = binary.AppendUvarint(dst, id.Session)
	if id.Session != 0 {
		dst = binary.AppendUvarint(dst, id.Counter)
	}
	return binary.AppendUvarint(dst, uint64(batchBytes))
}

// Batches walks the body of an entry of samples.
type Batches struct {
	TimeMs int64 // of the leader's clock

	// The batch that Next found: its id, whose session is 0 if it has none, and
	// its bytes, within the body.
	ID    series.BatchID
	Batch []byte

	rest []byte
	err  error
}

// ReadBatches starts to walk a body.
func ReadBatches(body []byte) Batches {
	timeMs, used := binary.Varint(body)
	if used <= 0 {
		return Batches{err: fmt.Errorf("%w: time of the samples", ErrInvalid)}
	}
	return Batches{TimeMs: timeMs, rest: body[used:]}
}

// Next moves to the next batch. It returns false at the end, and at what is no batch.
func (b *Batches) Next() bool {
	if len(b.rest) == 0 || b.err != nil {
		return false
	}
	b.ID = series.BatchID{}
	if b.ID.Session = b.uvarint("session"); b.ID.Session != 0 {
		b.ID.Counter = b.uvarint("counter")
	}
	n := b.uvarint("length")
	if b.err == nil && n > uint64(len(b.rest)) {
		b.fail("length")
	}
	if b.err != nil {
		return false
	}
	b.Batch, b.rest = b.rest[:n:n], b.rest[n:]
	return true
}

// Err returns what is wrong with the body: ErrInvalid, or nil.
func (b *Batches) Err() error { return b.err }

func (b *Batches) uvarint(name string) uint64 {
	if len(b.rest) > 0 && b.rest[0] < 0x80 {
		v := uint64(b.rest[0])
		b.rest = b.rest[1:]
		return v
	}
	v, used := binary.Uvarint(b.rest)
	if used <= 0 {
		b.fail(name)
		return 0
	}
	b.rest = b.rest[used:]
	return v
}

func (b *Batches) fail(name string) {
	if b.err == nil {
		b.err = fmt.Errorf("%w: %s of a batch", ErrInvalid, name)
	}
}
