package scan

import (
	"context"
	"math"
)

// Mark names a state of a shard: all entries up to an index, as one run of one replica has
// applied them. Run 0 names none: nothing can be said about what comes after it.
type Mark struct {
	Shard uint16
	Run   uint64
	Index uint64
}

// Change is what has become of a shard since a mark.
type Change struct {
	Mark // of now
	// LeastMs is a time before which no sample that a scan returns has come, changed or gone
	// since; ChangedNothing, or ChangedAll where that is not known.
	LeastMs int64
}

// The ends of Change.LeastMs.
const (
	ChangedNothing = math.MaxInt64
	ChangedAll     = math.MinInt64
)

// Historian is a Source that reports which times have changed, so that answers can be kept.
type Historian interface {
	// History returns for each of some shards, nil for all, a mark that stands for every write
	// that was answered before the call, and what has changed since an earlier mark of that
	// shard, if since, sorted by shard, has one. A scan that begins after the answer reads
	// what the mark stands for, or later states. The answer is sorted by shard. Errors: as
	// those of a scan.
	History(ctx context.Context, shards []uint16, since []Mark) ([]Change, error)
}
