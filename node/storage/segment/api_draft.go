package segment

import (
	"context"
	"io"

	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Options say what a Writer makes.
type Options struct {
	FS  vfs.FS
	Dir string
	Partition
	Level                     uint8
	SequenceLow, SequenceHigh uint64
	BlockSamples              int  // 0: codec.BlockSamples
	Dense                     bool // encode for size
	Rollups                   bool // build rollups by hour and day

	// Throttle, when given, is called with the bytes of every write before it
	// is made; it may wait, and an error ends the writing.
	Throttle func(bytes int) error
}

// Writer makes one segment.
type Writer struct{}

// Create starts a segment.
func Create(o Options) (*Writer, error) { return nil, ErrOptions }

// Add adds samples of a series.
func (w *Writer) Add(shard uint16, id uint32, columns *codec.Columns) error { return ErrOptions }

// Finish completes the file.
func (w *Writer) Finish() (Meta, error) { return Meta{}, ErrEmpty }

// Abort removes what was written.
func (w *Writer) Abort() error { return nil }

// Reader is an open segment.
type Reader struct{}

// Open opens a segment by the path of its file.
func Open(fs vfs.FS, name string) (*Reader, error) { return nil, ErrVersion }

// Meta describes the segment.
func (r *Reader) Meta() *Meta { return nil }

// Acquire adds a reference; false when the last one is gone.
func (r *Reader) Acquire() bool { return false }

// Release gives one reference back. The first one is Open's.
func (r *Reader) Release() error { return nil }

// Drop marks the file for removal with the last reference. It releases nothing.
func (r *Reader) Drop() {}

// Find points the cursor at the blocks of a series that overlap [fromMs, toMs].
// A series that is not there has none.
func (r *Reader) Find(c *Cursor, shard uint16, id uint32, fromMs, toMs int64) error { return nil }

// EachSeries visits the series of a shard in order of their ids.
func (r *Reader) EachSeries(shard uint16, visit func(SeriesInfo) error) error { return nil }

// Shards gives the shards in order.
func (r *Reader) Shards() ([]ShardInfo, error) { return nil, nil }

// ExportShard writes a segment that has only the one shard.
func (r *Reader) ExportShard(w io.Writer, shard uint16) (int64, error) { return 0, nil }

// Verify reads everything.
func (r *Reader) Verify(ctx context.Context) error { return nil }

// Rollups appends the rollups of width HourMs or DayMs whose start lies in
// [fromMs, toMs] to dst.
func (r *Reader) Rollups(dst []Rollup, shard uint16, id uint32, fromMs, toMs, widthMs int64) ([]Rollup, error) {
	return dst, nil
}

// Rollup is the aggregate of the samples of an hour or a day.
type Rollup struct {
	StartMs       int64
	Count         int64
	Min, Max, Sum float64
}

// ShardInfo describes a shard's part of a segment.
type ShardInfo struct {
	Shard                   uint16
	Offset, Bytes           int64
	Series, Blocks, Samples int64
	MinMs, MaxMs            int64
	Digest                  uint64
}

// SeriesInfo describes a series of a segment.
type SeriesInfo struct {
	Shard           uint16
	ID              uint32
	Blocks, Samples int64
	MinMs, MaxMs    int64
}

// Block describes a block.
type Block struct {
	MinMs, MaxMs int64
	Samples      int
}

// Cursor walks blocks of a series. The zero value is ready for Find; it keeps its memory.
type Cursor struct{}

// Next moves to the next block.
func (c *Cursor) Next() bool { return false }

// Err gives the error that ended Next.
func (c *Cursor) Err() error { return nil }

// Block describes the current block.
func (c *Cursor) Block() Block { return Block{} }

// Points appends all samples of the block to dst.
func (c *Cursor) Points(dst *codec.Points) error { return nil }

// Columns appends all samples of the block to dst.
func (c *Cursor) Columns(dst *codec.Columns) error { return nil }

// TimeRange is a closed range of time.
type TimeRange struct{ FromMs, ToMs int64 }

// MergeOptions say how Merge works.
type MergeOptions struct {
	Options
	BytesMax int64 // an output ends at the first shard border beyond; 0: no bound

	// Hidden, when given, appends the ranges of time in which the samples of a
	// series of an input are to be left out; they may overlap.
	Hidden func(dst []TimeRange, input *Meta, shard uint16, id uint32) []TimeRange
	// KeepShard, when given, says which shards go on.
	KeepShard func(shard uint16) bool
}

// Merge writes the samples of the inputs, oldest first.
func Merge(ctx context.Context, inputs []*Reader, o MergeOptions) ([]Meta, error) { return nil, nil }

// Settings steer compaction.
type Settings struct{}

// Job is a compaction to be done.
type Job struct {
	Inputs []Meta // oldest first
	Partition
	Level        uint8
	BlockSamples int
	Dense        bool
	Rollups      bool
	Reason       string
}

// PlanCompaction gives the next job, or false.
func PlanCompaction(metas []Meta, nowMs int64, s Settings) (Job, bool) { return Job{}, false }

// Expired gives the segments wholly before the cut.
func Expired(metas []Meta, cutMs int64) []Meta { return nil }
