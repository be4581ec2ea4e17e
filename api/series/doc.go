// Package series holds the values that every part of TickMesh shares: the key
// that identifies a series, the number form of a sample, and the one encoding of
// a batch's columns that is the same on the wire, in the log and at the door of
// the hot pages. It uses the standard library only.
package series

// Sample is one point of a series.
type Sample struct {
	TimeMs int64 // milliseconds since the Unix epoch
	Value  float64
}

// ID is a series' number within its shard, given in log order, never used again.
type ID uint32

// IDMax bounds the series of one shard. Numbers from SlotBase on stand, inside a
// batch, for the definitions that the batch itself carries.
const (
	IDMax    ID = 1<<31 - 1
	SlotBase ID = 1 << 31
)
