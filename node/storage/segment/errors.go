package segment

import (
	"errors"
	"fmt"
)

// ErrOrder refuses samples that are not in order of (shard, id, time), a time
// outside of the partition, or columns of unequal length.
var ErrOrder = errors.New("samples out of order for a segment")

// ErrOptions refuses options or inputs that do not fit together.
var ErrOptions = errors.New("segment options do not fit")

// ErrEmpty reports that a segment would have no samples; no file was made.
var ErrEmpty = errors.New("segment without samples")

// ErrVersion refuses a file of a format that this program does not know.
var ErrVersion = errors.New("unknown version of the segment format")

// CorruptError reports that a part of a segment cannot be read. What lies elsewhere
// in the file is not touched by it.
type CorruptError struct {
	File   string
	Part   Part
	Shard  uint16 // for parts below PartFile
	ID     uint32 // for PartBlock: the series
	Offset int64  // of the part, from the start of the file
	Reason string
}

// Part is a piece of a segment that is checked, and fails, on its own.
type Part uint8

// The parts of a segment.
const (
	PartFile       Part = iota // header, shard directory or footer: nothing can be read
	PartDirectory              // page directory of a shard: nothing of the shard can be read
	PartIndexPage              // the series of one index page
	PartRollups                // the rollups of one page, or those by day of a shard
	PartBlock                  // one block of one series
	PartDigest                 // a shard as a whole: its samples are not those that were written
	PartDayDigests             // day digests of one page, or those of a shard
)

func (p Part) String() string {
	names := [...]string{"file", "page directory", "index page", "rollup page", "block", "digest", "list of day digests"}
	if int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("part %d", uint8(p))
}

func (e *CorruptError) Error() string {
	switch e.Part {
	case PartFile:
		return fmt.Sprintf("segment %s is corrupt at byte %d: %s", e.File, e.Offset, e.Reason)
	case PartBlock:
		return fmt.Sprintf("segment %s: block of series %d of shard %d is corrupt at byte %d: %s", e.File, e.ID, e.Shard, e.Offset, e.Reason)
	default:
		return fmt.Sprintf("segment %s: %s of shard %d is corrupt at byte %d: %s", e.File, e.Part, e.Shard, e.Offset, e.Reason)
	}
}
