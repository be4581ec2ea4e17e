package segment

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"path"

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
	BlockSamples              int  // of a full block, to codec.BlockSamplesMax; 0: codec.BlockSamples
	Dense                     bool // encode for size
	Thinned                   bool // with Rollups: samples may be left out of which the rollups tell, see MergeOptions.ThinBefore
	Rollups                   bool // build rollups by hour and, of a partition of a day or more, by day; and digests by day
	Digests                   bool // build digests by day, also without rollups

	// Yield, if not nil, is called after each block, so that others may have the processor.
	Yield func()

	// Scratch, when given, names a file for the life of this process: it keeps the name
	// with TemporarySuffix behind it, and is not made durable.
	Scratch string
}

func (o *Options) meta() (Meta, error) {
	m := Meta{
		Partition: o.Partition, Level: o.Level, SequenceLow: o.SequenceLow, SequenceHigh: o.SequenceHigh,
		BlockSamples: o.BlockSamples, Dense: o.Dense, Rollups: o.Rollups, ScanSums: o.Rollups, DayDigests: o.Rollups || o.Digests,
		DayRollups: o.Rollups && o.HasDays(), HourEnds: o.Rollups, Thinned: o.Thinned,
	}
	if m.BlockSamples == 0 {
		m.BlockSamples = codec.BlockSamples
	}
	switch {
	case m.BlockSamples < 1 || m.BlockSamples > codec.BlockSamplesMax:
		return m, fmt.Errorf("%w: %d samples in a block", ErrOptions, m.BlockSamples)
	case m.Thinned && !m.Rollups:
		return m, fmt.Errorf("%w: a thinned file has rollups", ErrOptions)
	case m.StartMs >= m.EndMs:
		return m, fmt.Errorf("%w: partition from %d to %d ms", ErrOptions, m.StartMs, m.EndMs)
	case m.SequenceLow > m.SequenceHigh:
		return m, fmt.Errorf("%w: sequences from %d to %d", ErrOptions, m.SequenceLow, m.SequenceHigh)
	}
	return m, nil
}

// Writer makes one segment from samples in order of (shard, id, time). It is not
// safe for concurrent use. Its memory is bounded: a write buffer, the samples of
// one block, the open pages, and the page directory of one shard (24 bytes for
// each 4 KiB of index).
type Writer struct {
	o         Options
	meta      Meta
	temporary string // path
	out       output
	encoder   codec.BlockEncoder
	section   sectionWriter
	shards    []byte // shard directory so far
	inShard   bool   // a section is open
	err       error  // the first one; nothing goes on after it
}

// Create starts a segment. The file has a temporary name until Finish.
func Create(o Options) (*Writer, error) {
	meta, err := o.meta()
	if err != nil {
		return nil, err
	}
	w := &Writer{o: o, meta: meta, encoder: codec.BlockEncoder{Dense: o.Dense}}
	name := o.Scratch
	if name == "" {
		name = namePrefix(&meta)
	}
	w.temporary = path.Join(o.Dir, name+TemporarySuffix)
	file, err := o.FS.Create(w.temporary)
	if err != nil {
		return nil, fmt.Errorf("segment: create: %w", err)
	}
	w.out = output{file: file, scratch: o.Scratch != ""}
	w.section.init(&w.out, &w.encoder, &w.meta)
	w.section.yield = o.Yield
	w.out.write(appendHeader(nil, &meta))
	return w, nil
}

// Add adds samples of a series. Calls come in order of (shard, id); several for
// one series go on in time. Errors are ErrOrder, which leaves the Writer as it
// was, and those of the disk, after which only Abort is of use. The columns are
// not kept.
func (w *Writer) Add(shard uint16, id uint32, columns *codec.Columns) error {
	if w.err != nil {
		return w.err
	}
	if err := w.checkColumns(columns); err != nil {
		return err
	}
	if columns.Len() == 0 {
		return nil
	}
	if err := w.enter(shard, id, columns.Times[0]); err != nil {
		return err
	}
	w.section.digest += digestColumns(id, columns)
	return w.keep(w.section.add(columns))
}

// checkColumns refuses columns that no file can hold.
func (w *Writer) checkColumns(c *codec.Columns) error {
	if len(c.Mantissas) != len(c.Times) || len(c.Scales) != len(c.Times) {
		return fmt.Errorf("%w: columns of %d, %d and %d", ErrOrder, len(c.Times), len(c.Mantissas), len(c.Scales))
	}
	if len(c.Times) == 0 {
		return nil
	}
	previous := c.Times[0]
	if !w.meta.Has(previous) {
		return fmt.Errorf("%w: %d ms is not in the partition", ErrOrder, previous)
	}
	for _, t := range c.Times[1:] {
		if t <= previous {
			return fmt.Errorf("%w: %d ms does not come after %d ms", ErrOrder, t, previous)
		}
		previous = t
	}
	if !w.meta.Has(previous) {
		return fmt.Errorf("%w: %d ms is not in the partition", ErrOrder, previous)
	}
	return nil
}

// enter opens the section of a shard and the series in it.
func (w *Writer) enter(shard uint16, id uint32, firstMs int64) error {
	s := &w.section
	switch {
	case !w.inShard || shard > s.info.Shard:
		if err := w.endShard(); err != nil {
			return err
		}
		s.begin(shard)
		w.inShard = true
	case shard < s.info.Shard:
		return fmt.Errorf("%w: shard %d after %d", ErrOrder, shard, s.info.Shard)
	}
	switch {
	case !s.open || id > s.id:
		return w.keep(s.beginSeries(id))
	case id < s.id:
		return fmt.Errorf("%w: series %d after %d of shard %d", ErrOrder, id, s.id, shard)
	case firstMs <= s.lastMs:
		return fmt.Errorf("%w: %d ms does not come after %d ms, series %d of shard %d", ErrOrder, firstMs, s.lastMs, id, shard)
	}
	return nil
}

func (w *Writer) endShard() error {
	if !w.inShard || w.err != nil {
		return w.err
	}
	entry, err := w.section.end()
	if err != nil {
		return w.keep(err)
	}
	m := &w.meta
	if m.Shards == 0 {
		m.ShardLow, m.MinMs, m.MaxMs = entry.Shard, entry.MinMs, entry.MaxMs
	}
	m.ShardHigh = entry.Shard
	m.MinMs, m.MaxMs = min(m.MinMs, entry.MinMs), max(m.MaxMs, entry.MaxMs)
	m.Shards++
	m.Series += entry.Series
	m.Blocks += entry.Blocks
	m.Samples += entry.Samples
	w.shards = appendShardEntry(w.shards, &entry)
	w.inShard = false
	return w.keep(w.out.err)
}

func (w *Writer) keep(err error) error {
	if err == nil {
		err = w.out.err
	}
	if w.err == nil {
		w.err = err
	}
	return err
}

// Finish completes the file, makes it durable and names it, but for a scratch
// file, which is only completed; the name is that of the Meta. If there are
// no samples it removes the file and returns ErrEmpty. After any error the
// temporary file is gone, as far as the disk allows.
func (w *Writer) Finish() (Meta, error) {
	if err := w.finish(); err != nil {
		return Meta{}, errors.Join(err, w.Abort())
	}
	return w.meta, nil
}

func (w *Writer) finish() error {
	if err := w.endShard(); err != nil {
		return err
	}
	if w.err != nil {
		return w.err
	}
	if w.meta.Shards == 0 {
		return ErrEmpty
	}
	f := footer{Meta: w.meta, directoryOffset: w.out.offset, directoryCRC: crc32.Checksum(w.shards, castagnoli)}
	f.Bytes = w.out.offset + int64(len(w.shards)) + footerBytes
	w.meta.Bytes = f.Bytes
	w.out.write(w.shards)
	w.out.write(appendFooter(nil, &f))
	if err := w.out.close(); err != nil {
		return fmt.Errorf("segment %s: %w", w.temporary, err)
	}
	if invariants {
		if err := w.readBack(); err != nil {
			return err
		}
	}
	if w.o.Scratch != "" {
		w.meta.Name, w.temporary, w.err = path.Base(w.temporary), "", errFinished
		return nil
	}
	w.meta.Name = FileName(&w.meta)
	name := path.Join(w.o.Dir, w.meta.Name)
	if err := w.o.FS.Rename(w.temporary, name); err != nil {
		return fmt.Errorf("segment: rename: %w", err)
	}
	w.temporary = name // what Abort removes if the name cannot be made durable
	if err := w.o.FS.SyncDir(w.o.Dir); err != nil {
		return fmt.Errorf("segment: sync directory: %w", err)
	}
	w.temporary = ""
	w.err = errFinished
	return nil
}

// readBack verifies the unfinished file: after a merge its digests are those of
// the inputs, so this checks the merge as well.
func (w *Writer) readBack() error {
	r, err := Open(w.o.FS, w.temporary)
	if err != nil {
		return err
	}
	return errors.Join(r.Verify(context.Background()), r.Release())
}

var errFinished = errors.New("segment: the writer has finished")

// Abort removes what was written. After Finish it does nothing.
func (w *Writer) Abort() error {
	if w.temporary == "" {
		return nil
	}
	w.out.abandon()
	name := w.temporary
	w.temporary = ""
	w.err = errFinished
	if err := w.o.FS.Remove(name); err != nil {
		return fmt.Errorf("segment: remove unfinished file: %w", err)
	}
	return nil
}
