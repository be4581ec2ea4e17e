package segment

import (
	"fmt"
	"math"
	"time"
)

// Widths of partitions and rollups in milliseconds.
const (
	HourMs = int64(60 * 60 * 1000)
	DayMs  = 24 * HourMs
)

// Span is the width of a partition.
type Span uint8

// The spans that partitions have. All are aligned to UTC, and each partition lies
// within one of the next wider span.
const (
	SpanTwoHours Span = iota + 1
	SpanDay
	SpanMonth // a calendar month
)

// Partition is the stretch of time [StartMs, EndMs), in milliseconds since the
// Unix epoch.
type Partition struct {
	StartMs int64 `json:"startMs"`
	EndMs   int64 `json:"endMs"`
}

// PartitionOf returns the partition of a span that has the time in it.
func PartitionOf(timeMs int64, span Span) Partition {
	switch span {
	case SpanDay:
		start := floorTo(timeMs, DayMs)
		return Partition{start, start + DayMs}
	case SpanMonth:
		t := time.UnixMilli(timeMs).UTC()
		start := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
		return Partition{start.UnixMilli(), start.AddDate(0, 1, 0).UnixMilli()}
	default:
		start := floorTo(timeMs, 2*HourMs)
		return Partition{start, start + 2*HourMs}
	}
}

// floorTo rounds down to a multiple of width, also below zero.
func floorTo(timeMs, width int64) int64 {
	rest := timeMs % width
	if rest < 0 {
		rest += width
	}
	return timeMs - rest
}

// HourOf returns the hour, in UTC, that has the time in it.
func HourOf(timeMs int64) TimeRange {
	start := floorTo(timeMs, HourMs)
	return TimeRange{FromMs: start, ToMs: start + HourMs - 1}
}

// Has reports whether the time lies in the partition.
func (p Partition) Has(timeMs int64) bool { return timeMs >= p.StartMs && timeMs < p.EndMs }

// Covers reports whether all of other lies in the partition.
func (p Partition) Covers(other Partition) bool {
	return p.StartMs <= other.StartMs && other.EndMs <= p.EndMs
}

// Overlaps reports whether the partitions have some time in common.
func (p Partition) Overlaps(other Partition) bool {
	return p.StartMs < other.EndMs && other.StartMs < p.EndMs
}

// Meta describes a segment; it is what a manifest and the planning of compactions
// need to know without opening the file. All of it but Name and Damaged is in the
// file's footer.
type Meta struct {
	Name string `json:"name"` // the file's base name
	Partition
	Level        uint8  `json:"level"` // 0: from a flush; grows with every merge
	SequenceLow  uint64 `json:"sequenceLow"`
	SequenceHigh uint64 `json:"sequenceHigh"`
	BlockSamples int    `json:"blockSamples"`      // samples of a full block
	Dense        bool   `json:"dense"`             // blocks were encoded for size
	Rollups      bool   `json:"rollups"`           // the file has rollups
	ScanSums     bool   `json:"scanSums"`          // the rollups' sums are those of scans: see Rollup
	DayDigests   bool   `json:"dayDigests"`        // the file has digests by day
	DayRollups   bool   `json:"dayRollups"`        // the file has pages of rollups by day, with first and last value: see Rollup
	HourEnds     bool   `json:"hourEnds"`          // the file has first and last values of hours: see Reader.HourEnds
	Thinned      bool   `json:"thinned,omitempty"` // of some hours only the last sample is there, and the rollups tell of all: see Options.Thinned
	ShardLow     uint16 `json:"shardLow"`          // first and last shard with samples
	ShardHigh    uint16 `json:"shardHigh"`
	Shards       int    `json:"shards"`
	Bytes        int64  `json:"bytes"` // of the file
	Series       int64  `json:"series"`
	Blocks       int64  `json:"blocks"`
	Samples      int64  `json:"samples"`
	MinMs        int64  `json:"minMs"` // time of the first and the last sample
	MaxMs        int64  `json:"maxMs"`

	// Damaged is for the owner of a Meta to set when a read or a merge met a
	// *CorruptError: compaction leaves the segment alone, so that what is
	// readable stays so.
	Damaged bool `json:"damaged,omitempty"`
}

// FileSuffix ends the names of segments, TemporarySuffix those of unfinished ones.
const (
	FileSuffix      = ".seg"
	TemporarySuffix = ".tmp"
)

// FileName returns the name of a segment. It is unique among the live segments of a
// node, as a merge always raises the level or the range of sequences.
func FileName(m *Meta) string {
	return fmt.Sprintf("%s-%05x%s", namePrefix(m), m.ShardLow, FileSuffix)
}

func namePrefix(m *Meta) string {
	return fmt.Sprintf("%s_%x-%d-%x-%x", nameTime(m.StartMs), uint64(m.EndMs-m.StartMs)/uint64(HourMs), m.Level, m.SequenceLow, m.SequenceHigh)
}

// nameTime is readable for the years in use and unique for all others.
func nameTime(startMs int64) string {
	if startMs < 0 || startMs > math.MaxInt32*1000*10 {
		return fmt.Sprintf("t%016x", uint64(startMs))
	}
	return time.UnixMilli(startMs).UTC().Format("20060102T15")
}
