package series

import "errors"

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
	Batch []byte
}

// Frame is one request's parts for one node, at most one part for each shard.
type Frame struct {
	Parts  []Part
	Points int // in all parts
}

// Refusal says that all points of one definition were left out, and why.
type Refusal struct {
	Part       int // index into Frame.Parts
	Definition int // index of the definition within the part's batch
	Err        error
}

// Outcome is what became of a frame whose write gave no error: all points but
// those of the refused definitions are in the logs of Copies replicas.
type Outcome struct {
	Copies  int
	Refused []Refusal
}

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
)
