package series

import (
	"errors"
	"fmt"
	"time"
)

// Ref names a series for a writer: its shard, its id within it, and a hint that
// only the resolver which gave it understands.
type Ref struct {
	Hint  uint32
	Shard uint16
	ID    ID
}

// HintNone is the Hint of no series: of a Ref that names none, and the one to
// give when nothing was found before.
const HintNone uint32 = 1<<32 - 1

// Part is the encoded batch of one shard.
type Part struct {
	Shard uint16
	// Era is the shard's era in which the batch's ids were learnt. Ids of another
	// era mean other series: such a batch is refused with ErrEra. 0: the batch
	// names no series by id, or there is one process and one era.
	Era   uint32
	Batch []byte
}

// BatchID names a write, so that its repetition is known as such. All parts of a
// frame have one. Within a session counters grow by one; a repetition has the
// counter of the first attempt. The zero value names nothing: such a write is
// applied as often as it is sent.
type BatchID struct {
	Session uint64
	Counter uint64
}

// IsZero reports whether it names nothing.
func (b BatchID) IsZero() bool { return b == BatchID{} }

// keyedCounter marks the ids of single writes.
const keyedCounter = 1 << 63

// KeyedID names a single write by a hash of all that makes it what it is, so that a
// repetition has the same id wherever it is made. Counters of writers that count stay
// below 2^63, so the two kinds cannot meet in a session, and what is remembered of
// either has a bound of its own.
func KeyedID(hash uint64) BatchID {
	return BatchID{Session: max(hash, 1), Counter: keyedCounter | 1}
}

// IsKeyed reports whether it was made by KeyedID.
func (b BatchID) IsKeyed() bool { return b.Counter&keyedCounter != 0 }

// Level describes how many replicas have a write in their logs when it is answered.
type Level uint8

// The levels of a write.
const (
	LevelMajority Level = iota // a majority of the shard's voters
	LevelAll                   // a majority, and every full voter
)

// Frame is one request's parts for one node, at most one part for each shard.
type Frame struct {
	Parts  []Part
	Points int // in all parts
	ID     BatchID
	Level  Level
	Hours  bool // the points are those of hours: see BatchEncoder.SetHours
	// Timeout is how long the writer waits for an answer; 0: as long as the context.
	Timeout time.Duration
	// Generation of the references that the parts' ids come from: whoever gave them
	// grows it when older ones may mean other series. 0: no part names a series by
	// id, or there is one process and references hold for ever.
	Generation uint64
}

// Refusal reports that all points of one definition were left out, and why.
type Refusal struct {
	Part       int // index into Frame.Parts
	Definition int // index of the definition within the part's batch
	Err        error
}

// Outcome is what became of a frame whose write gave no error: all points but
// those of the refused definitions are in the logs of at least Copies replicas.
type Outcome struct {
	Copies  int
	Refused []Refusal
	// Defined has, where the writer is not the resolver, the ids of definitions.
	Defined []Defined
}

// Defined is the id that a definition's series has.
type Defined struct {
	Part       int // index into Frame.Parts
	Definition int // index of the definition within the part's batch
	ID         ID
	Era        uint32 // of the shard, see Part
}

// CopiesError answers a write of LevelAll that a majority has in its logs: it is done
// and will not be undone, but not every full voter is known to have it. It is an
// ErrUnavailable. A repetition under the same id writes nothing again and waits for
// the others.
type CopiesError struct {
	Copies  int // in the logs of so many replicas, at least, as in Outcome
	Missing int // full voters of a shard that are not known to have it, at most
}

// Error returns the text for people.
func (e *CopiesError) Error() string {
	return fmt.Sprintf("written in %d copies and not undone, but %d more were asked for", e.Copies, e.Missing)
}

// Unwrap returns the kind.
func (e *CopiesError) Unwrap() error { return ErrUnavailable }

// Kinds of write errors, for errors.Is. After one of them nothing of the frame
// may be taken as written.
var (
	// ErrUnavailable: too few replicas, or the shard is moving. Try again later.
	ErrUnavailable = errors.New("unavailable")
	// ErrOverloaded: a queue is at its bound. Try again later.
	ErrOverloaded = errors.New("overloaded")
	// ErrReadOnly: the disk is full, read-only or failing. The text names it.
	ErrReadOnly = errors.New("storage does not take writes")
	// ErrSeriesLimit: the shard or the node may have no more series, or not so
	// many new ones a second.
	ErrSeriesLimit = errors.New("series limit")
	// ErrSeriesRate is the ErrSeriesLimit that passes by itself: too many new ones
	// this second. As a refusal it asks for the frame again.
	ErrSeriesRate = fmt.Errorf("%w: too many new series a second", ErrSeriesLimit)
	// ErrEra: ids of a part are of another era of its shard. What is remembered of
	// the shard's ids has to be forgotten, and the batch sent with keys.
	ErrEra = errors.New("series ids of another era")
	// ErrBatchOld: the write's counter is so far behind others of its session that
	// it is unknown whether it was applied.
	ErrBatchOld = errors.New("batch id is older than what is remembered")
)
