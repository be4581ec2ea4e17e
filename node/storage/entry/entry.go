package entry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

// ErrInvalid marks bytes that are not an entry.
var ErrInvalid = errors.New("not a log entry")

// BatchError reports which batches of an entry of samples were not, or not in all
// parts, applied. All others were.
type BatchError struct {
	Batches []int // numbers, growing
	Errs    []error
}

func (e *BatchError) With(number int, err error) *BatchError {
	if e == nil {
		e = &BatchError{}
	}
	e.Batches, e.Errs = append(e.Batches, number), append(e.Errs, err)
	return e
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("batch %d of the entry, and %d more: %v", e.Batches[0], len(e.Batches)-1, e.Errs[0])
}

// Unwrap returns what is wrong with each batch.
func (e *BatchError) Unwrap() []error { return e.Errs }

// OnlyIs reports whether err is of batches alone, each of which failed with target. errors.Is reports whether any did.
func OnlyIs(err, target error) bool {
	var refused *BatchError
	if !errors.As(err, &refused) {
		return false
	}
	for _, of := range refused.Errs {
		if !errors.Is(of, target) {
			return false
		}
	}
	return true
}

// Kind describes what an entry does when it is applied.
type Kind uint8

// The kinds of records of the log. Their numbers are part of the durable format.
const (
	Samples       Kind = 1  // body: see Batches
	Delete        Kind = 2  // body: see DeleteBody
	Retention     Kind = 3  // body: see RetentionBody
	Empty         Kind = 4  // of a new Raft leader; applying it changes nothing
	Configuration Kind = 5  // a change of a Raft group; nothing to the engine
	NamedDelete   Kind = 6  // body: see NamedDeleteBody
	RuleCuts      Kind = 7  // body: see retention.Encode
	Forget        Kind = 8  // body: see ForgetBody
	ThinCuts      Kind = 9  // body: see retention.Encode
	Exemplars     Kind = 10 // body: see ExemplarsBody
	GroupState    Kind = 16 // no entry: what a Raft group must remember; its index is 0
)

// Entry is one element of a shard's log:
//
//	kind u8, shard u16, uvarint term, uvarint index, uvarint gap, body
//
// Index counts from 1 in each shard without gaps. Gap is the index less that of
// the last entry which was known to be committed when this one was written; 0, as
// in a group of one voter, says that the entry itself was.
type Entry struct {
	Kind  Kind
	Shard uint16
	Term  uint64
	Index uint64
	Gap   uint64
	Body  []byte
}

// Committed returns the index up to which entries of the shard are committed for
// sure, since this one says so.
func (e *Entry) Committed() uint64 { return e.Index - e.Gap }

// AppendHeader appends the entry's header; the body follows it as it is.
func (e *Entry) AppendHeader(dst []byte) []byte {
	dst = append(dst, byte(e.Kind))
	dst = binary.LittleEndian.AppendUint16(dst, e.Shard)
	dst = binary.AppendUvarint(dst, e.Term)
	dst = binary.AppendUvarint(dst, e.Index)
	return binary.AppendUvarint(dst, e.Gap)
}

// HeaderBytesMax bounds what AppendHeader appends.
const HeaderBytesMax = 1 + 2 + 3*binary.MaxVarintLen64

// Parse reads an entry, or another record of a known shape; its body points
// into record. Only a group's state has the index 0.
func Parse(record []byte) (Entry, error) {
	if len(record) < 6 {
		return Entry{}, fmt.Errorf("%w: %d bytes", ErrInvalid, len(record))
	}
	e := Entry{Kind: Kind(record[0]), Shard: binary.LittleEndian.Uint16(record[1:])}
	rest := record[3:]
	var numbers [3]uint64 // no pointers to e's fields: the entry would be on the heap
	for i := range numbers {
		v, used := binary.Uvarint(rest)
		if used <= 0 {
			return Entry{}, fmt.Errorf("%w: %s", ErrInvalid, [...]string{"term", "index", "gap"}[i])
		}
		numbers[i], rest = v, rest[used:]
	}
	e.Term, e.Index, e.Gap = numbers[0], numbers[1], numbers[2]
	if e.Gap > e.Index || (e.Index == 0) != (e.Kind == GroupState) {
		return Entry{}, fmt.Errorf("%w: kind %d with index %d and gap %d", ErrInvalid, e.Kind, e.Index, e.Gap)
	}
	e.Body = rest
	return e, nil
}

// DeleteBody encodes the deletion of the samples of ids, sorted and unique, in
// [fromMs, toMs]: varint from, varint to, uvarint count, uvarint differences.
func DeleteBody(ids []uint32, fromMs, toMs int64) []byte {
	b := binary.AppendVarint(nil, fromMs)
	b = binary.AppendVarint(b, toMs)
	return appendIDs(b, ids)
}

// NamedDeleteBody encodes a deletion that is done once, however often it is repeated:
// varint time of the leader's clock in ms, which ages ids as that of samples does,
// uvarint session, uvarint counter, then what DeleteBody returned. The id must have a
// session.
func NamedDeleteBody(timeMs int64, id series.BatchID, body []byte) []byte {
	b := binary.AppendVarint(make([]byte, 0, 3*binary.MaxVarintLen64+len(body)), timeMs)
	b = binary.AppendUvarint(b, id.Session)
	b = binary.AppendUvarint(b, id.Counter)
	return append(b, body...)
}

func ParseNamedDeleteBody(b []byte) (timeMs int64, id series.BatchID, body []byte, err error) {
	timeMs, used := binary.Varint(b)
	if used <= 0 {
		return 0, id, nil, fmt.Errorf("%w: time of a delete", ErrInvalid)
	}
	b = b[used:]
	for _, field := range [...]*uint64{&id.Session, &id.Counter} {
		if *field, used = binary.Uvarint(b); used <= 0 {
			return 0, id, nil, fmt.Errorf("%w: id of a delete", ErrInvalid)
		}
		b = b[used:]
	}
	if id.Session == 0 {
		return 0, id, nil, fmt.Errorf("%w: a named delete without a session", ErrInvalid)
	}
	return timeMs, id, b, nil
}

func ParseDeleteBody(b []byte) (ids []uint32, fromMs, toMs int64, err error) {
	var used int
	if fromMs, used = binary.Varint(b); used <= 0 {
		return nil, 0, 0, fmt.Errorf("%w: start of a delete", ErrInvalid)
	}
	b = b[used:]
	if toMs, used = binary.Varint(b); used <= 0 {
		return nil, 0, 0, fmt.Errorf("%w: end of a delete", ErrInvalid)
	}
	ids, rest, err := parseIDs(b[used:])
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes after a delete", ErrInvalid, len(rest))
	}
	return ids, fromMs, toMs, err
}

// ForgetBody encodes that series without samples are forgotten: uvarint after, then ids as DeleteBody
// has them. The leader saw them without samples when the entry after was the last one that it had
// applied; unless the entry is the next one it means nothing.
func ForgetBody(after uint64, ids []uint32) []byte {
	return appendIDs(binary.AppendUvarint(nil, after), ids)
}

func ParseForgetBody(b []byte) (after uint64, ids []uint32, err error) {
	after, used := binary.Uvarint(b)
	if used <= 0 {
		return 0, nil, fmt.Errorf("%w: entry before a forget", ErrInvalid)
	}
	ids, rest, err := parseIDs(b[used:])
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes after a forget", ErrInvalid, len(rest))
	}
	return after, ids, err
}

// AppendIDs appends sorted and unique ids as DeleteBody has them, and ParseIDs reads them, and nothing else.
func AppendIDs(b []byte, ids []uint32) []byte { return appendIDs(b, ids) }

// ParseIDs is described with AppendIDs. Error: ErrInvalid.
func ParseIDs(b []byte) ([]uint32, error) {
	ids, rest, err := parseIDs(b)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes after series", ErrInvalid, len(rest))
	}
	return ids, err
}

func appendIDs(b []byte, ids []uint32) []byte {
	b = binary.AppendUvarint(b, uint64(len(ids)))
	var previous uint32
	for _, id := range ids {
		b = binary.AppendUvarint(b, uint64(id-previous))
		previous = id
	}
	return b
}

func parseIDs(b []byte) (ids []uint32, rest []byte, err error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, nil, fmt.Errorf("%w: count of series", ErrInvalid)
	}
	b = b[used:]
	ids = slices.Grow(ids, int(n))
	var id uint32
	for i := range n {
		d, used := binary.Uvarint(b)
		if used <= 0 {
			return nil, nil, fmt.Errorf("%w: series of a delete", ErrInvalid)
		}
		if d > uint64(math.MaxUint32-id) || i > 0 && d == 0 {
			return nil, nil, fmt.Errorf("%w: series %d of a delete is %d after %d", ErrInvalid, i, d, id)
		}
		b = b[used:]
		id += uint32(d)
		ids = append(ids, id)
	}
	return ids, b, nil
}

// RetentionBody encodes a retention cut.
func RetentionBody(cutMs int64) []byte { return binary.AppendVarint(nil, cutMs) }

func ParseRetentionBody(b []byte) (int64, error) {
	cut, used := binary.Varint(b)
	if used <= 0 || used != len(b) {
		return 0, fmt.Errorf("%w: retention cut", ErrInvalid)
	}
	return cut, nil
}
