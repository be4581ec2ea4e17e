package transfer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Export is the state of a shard, pinned, as a stream that may be read from any
// place and by several readers at a time. It holds the segments that it needs, among
// them scratch ones of what the page log has, and nothing of the page log; it must be
// closed.
type Export struct {
	ShardExport
	mover  *Mover
	files  []*segment.ShardFile
	held   []*segment.Reader
	stones []streamTombstone
	table  []byte
	ring   []byte   // of exemplars
	gone   []uint32 // ids that are forgotten
	frames []exportFrame
	closed atomic.Bool
	// release lets keys of series be dropped again; nil: it holds none.
	release func()
}

// exportFrame is a frame that is made when it is read.
type exportFrame struct {
	kind    uint8
	offset  int64 // in the stream
	bytes   int   // of the payload
	payload func(dst []byte) ([]byte, error)
}

// ExportShard pins the state of a shard after the last entry that was applied; entries
// may be applied meanwhile. What segments do not have yet is copied: neither the shard's
// pages nor other shards change. Only where pages of the shard cannot be read, or a
// series has very many, the page log is flushed first. Errors: ErrStalled,
// series.ErrUnavailable when the shard was dropped or is being replaced, and those of
// Flush and of the disk.
func (m *Mover) ExportShard(shard uint16) (*Export, error) {
	_, leave, err := m.enter(context.Background(), shard, series.ErrUnavailable)
	if err != nil {
		return nil, err
	}
	defer leave()
	x := &Export{mover: m}
	x.Shard = shard
	if err := x.pin(m.o.Shards[shard]); err != nil {
		return nil, errors.Join(fmt.Errorf("export shard %d: %w", shard, err), x.Close())
	}
	return x, nil
}

func (x *Export) pin(s Shard) error {
	// Keys of series that are forgotten from now on are read later.
	x.release, x.NoKeys = x.mover.o.Index.HoldKeys(), x.mover.o.Index.DropsKeys()
	state, err := s.Pin()
	if err != nil {
		return err
	}
	x.Index, x.table, x.ring = state.Applied, state.Batches, state.Exemplars
	x.gone, x.Forgotten = state.Forgotten, uint32(len(state.Forgotten))
	x.NoKeys = x.NoKeys && len(x.gone) > 0
	x.CutMs, x.RuleCuts, x.ThinCuts = state.CutMs, state.Rules.Lists(), state.Thin.Lists()
	o := &x.mover.o
	err = x.hold(state.Replica)
	if err != nil && flushHelps(err) {
		o.Logger.Warn("pages of a shard that is exported cannot be copied; flushing them", "shard", x.Shard, "error", err)
		if err = o.Flush(); err == nil {
			err = x.hold(state.Replica)
		}
	}
	if err != nil {
		return err
	}
	x.Series = o.Index.ShardSeries(x.Shard)
	x.Through = s.Applied()
	// Files that leave the node never know more than its log after a power cut.
	if err := o.SyncLog(); err != nil {
		return fmt.Errorf("sync the log: %w", err)
	}
	return x.layOut()
}

// hold takes all samples that were applied before it is called.
func (x *Export) hold(replica uint64) error {
	spill := newSpill(x.mover, x.Shard, x.mover.exports.Add(1))
	defer spill.reader.Close()
	v := spill.reader.Version
	if v.LowWater[x.Shard].Number != replica {
		return read.ErrReplaced
	}
	spilled, err := spill.run()
	if err != nil {
		return err
	}
	x.held = append(x.held, spilled...)
	if err := x.holdSegments(v); err != nil {
		return err
	}
	for _, r := range spilled { // behind all others: what they have was written last
		if err := x.holdShard(r); err != nil {
			return err
		}
	}
	return nil
}

// holdSegments takes the parts of the shard in segments, in the order of writing,
// and the tombstones that hide something in them.
func (x *Export) holdSegments(v *manifest.Version) error {
	if err := x.mover.o.Source.Lacks(v, x.Shard, segment.AllTime()); err != nil {
		return err
	}
	readers := slices.DeleteFunc(slices.Clone(v.Segments), func(r *segment.Reader) bool {
		m := r.Meta()
		return x.Shard < m.ShardLow || x.Shard > m.ShardHigh || v.Hides(m, x.Shard)
	})
	// By the highest sequence, so that a tombstone hides the first so many. Where two
	// overlap their ranges are disjoint.
	slices.SortStableFunc(readers, func(a, b *segment.Reader) int {
		return int(int64(a.Meta().SequenceHigh) - int64(b.Meta().SequenceHigh))
	})
	for _, r := range readers {
		if !r.Acquire() {
			return errors.New("BUG: a segment of the current version is closed")
		}
		x.held = append(x.held, r)
		if err := x.holdShard(r); err != nil {
			return err
		}
	}
	from, to := v.Tombstones.OfShard(x.Shard)
	for i := from; i < to; i++ {
		t := &v.Tombstones[i]
		hides := sort.Search(len(x.files), func(n int) bool { return !t.HidesSegment(x.files[n].Meta.SequenceHigh) })
		if within := x.needed(t, v.Purged); hides > 0 && within.FromMs <= within.ToMs {
			x.stones = append(x.stones, streamTombstone{uint64(hides), t.Entry, t.IDs, within.FromMs, within.ToMs})
		}
	}
	return nil
}

// needed returns what a tombstone hides, but for parts of hours that are thinned and were so without the samples that it
// hides: who gets the files cannot know the latter, and would take the rollups of these hours for those of more samples.
func (x *Export) needed(t *manifest.Tombstone, purged map[string]uint64) segment.TimeRange {
	within := segment.TimeRange{FromMs: t.FromMs, ToMs: t.ToMs}
	workedIn := func(hour segment.TimeRange) (ok bool) {
		for _, r := range x.held {
			m := r.Meta()
			if m.MinMs > hour.ToMs || m.MaxMs < hour.FromMs {
				continue
			}
			if t.Concerns(m, purged) {
				return false
			}
			ok = ok || m.Thinned
		}
		return ok
	}
	if hour := segment.HourOf(t.FromMs); hour.FromMs < t.FromMs && workedIn(hour) {
		within.FromMs = hour.ToMs + 1
	}
	if hour := segment.HourOf(t.ToMs); hour.ToMs > t.ToMs && workedIn(hour) {
		within.ToMs = hour.FromMs - 1
	}
	return within
}

// holdShard takes the shard's part of a segment that is held, if it has one.
func (x *Export) holdShard(r *segment.Reader) error {
	file, err := r.ShardFile(x.Shard)
	if errors.Is(err, segment.ErrEmpty) {
		return nil
	}
	if err == nil {
		x.files = append(x.files, file)
		x.Samples += file.Meta.Samples
	}
	return err
}

// layOut returns which frames there are, and where in the stream.
func (x *Export) layOut() error {
	x.add(frameHeader, nil)
	x.add(frameBatches, x.table)
	for i := range x.stones {
		x.add(frameTombstone, x.stones[i].encode())
	}
	for gone := range slices.Chunk(x.gone, forgottenOfFrame) {
		x.add(frameForgotten, entry.AppendIDs(nil, gone))
	}
	if err := x.layOutKeys(); err != nil {
		return err
	}
	header := streamHeader{Format: formatOf(&x.ShardExport), Shards: len(x.mover.o.Shards), Segments: []int64{}, Exemplars: x.ring}
	for _, file := range x.files {
		header.Segments = append(header.Segments, file.Meta.Bytes)
		for at := int64(0); at < file.Meta.Bytes; at += frameBytes {
			n := int(min(frameBytes, file.Meta.Bytes-at))
			x.addFrame(frameSegment, n, func(dst []byte) ([]byte, error) {
				dst = slices.Grow(dst, n)[:len(dst)+n]
				_, err := file.ReadAt(dst[len(dst)-n:], at)
				return dst, err
			})
		}
	}
	x.add(frameEnd, nil)
	for i := range x.frames[1:] {
		x.Bytes += int64(x.frames[1+i].bytes) + frameHeadBytes + frameSumBytes
	}
	header.ShardExport = x.ShardExport
	b, err := json.Marshal(&header)
	if err != nil {
		return fmt.Errorf("encode the header: %w", err)
	}
	x.frames[0].bytes, x.frames[0].payload = len(b), func(dst []byte) ([]byte, error) { return append(dst, b...), nil }
	offset := int64(0)
	for i := range x.frames {
		x.frames[i].offset = offset
		offset += int64(x.frames[i].bytes) + frameHeadBytes + frameSumBytes
	}
	return nil
}

// forgottenOfFrame bounds the ids of a frame: each takes five bytes at most.
const forgottenOfFrame = frameBytes / 8

func (x *Export) add(kind uint8, payload []byte) {
	x.addFrame(kind, len(payload), func(dst []byte) ([]byte, error) { return append(dst, payload...), nil })
}

func (x *Export) addFrame(kind uint8, payloadBytes int, payload func([]byte) ([]byte, error)) {
	x.frames = append(x.frames, exportFrame{kind: kind, bytes: payloadBytes, payload: payload})
}

// layOutKeys looks at all keys once, for their lengths; they are read again when
// their frame is.
func (x *Export) layOutKeys() error {
	var key []byte
	var from series.ID
	bytes := 0
	end := func(to series.ID) {
		first := from
		if from = to; bytes > 0 {
			x.addFrame(frameKeys, bytes, func(dst []byte) ([]byte, error) { return x.appendKeys(dst, first, to) })
		}
		bytes = 0
	}
	for id := range series.ID(x.Series) {
		k, err := x.keyOf(id, key[:0])
		if err != nil {
			return err
		}
		key = k
		if bytes += uvarintBytes(uint64(len(k))) + len(k); bytes >= frameBytes {
			end(id + 1)
		}
	}
	end(series.ID(x.Series))
	return nil
}

// keyOf appends the key of a series to dst, as the stream has it.
func (x *Export) keyOf(id series.ID, dst []byte) (series.Key, error) {
	if x.NoKeys {
		if _, gone := slices.BinarySearch(x.gone, uint32(id)); gone {
			return dst, nil
		}
	}
	return x.mover.o.Index.KeyOf(x.Shard, id, dst)
}

func uvarintBytes(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

func (x *Export) appendKeys(dst []byte, from, to series.ID) ([]byte, error) {
	var key []byte
	for id := from; id < to; id++ {
		k, err := x.keyOf(id, key[:0])
		if err != nil {
			return dst, err
		}
		key = k
		dst = append(binary.AppendUvarint(dst, uint64(len(k))), k...)
	}
	return dst, nil
}

// Size returns the length of the stream.
func (x *Export) Size() int64 {
	last := &x.frames[len(x.frames)-1]
	return last.offset + int64(last.bytes) + frameHeadBytes + frameSumBytes
}

// OpenAt returns the stream from an offset on. The reader is for one goroutine. Its
// errors: ErrClosed after the engine's or the export's Close, and those of damaged
// files.
func (x *Export) OpenAt(offset int64) io.Reader {
	n := sort.Search(len(x.frames), func(i int) bool { return x.frames[i].offset > offset })
	return &exportReader{export: x, next: max(n-1, 0), skip: offset}
}

// WriteTo implements io.WriterTo: it writes the whole stream.
func (x *Export) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, x.OpenAt(0)) }

// Close releases the segments, when nobody reads the stream any more. A second call
// does nothing.
func (x *Export) Close() error {
	if x.closed.Swap(true) {
		return nil
	}
	if x.release != nil {
		x.release()
	}
	var problems []error
	for _, r := range x.held {
		problems = append(problems, r.Release())
	}
	return errors.Join(problems...)
}

// exportReader reads the stream frame by frame.
type exportReader struct {
	export *Export
	next   int    // frame
	skip   int64  // where the reader was opened, until the first frame was read
	buffer []byte // of the present frame
	rest   []byte
}

// Read implements io.Reader.
func (r *exportReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.next >= len(r.export.frames) {
			return 0, io.EOF
		}
		if err := r.load(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *exportReader) load() error {
	x := r.export
	_, leave, err := x.mover.o.Gate.Enter(context.Background())
	if err != nil {
		return err
	}
	defer leave()
	if x.closed.Load() {
		return read.ErrClosed
	}
	f := &x.frames[r.next]
	b, err := f.payload(beginFrame(r.buffer[:0], f.kind, uint32(r.next), f.bytes))
	if err != nil {
		return fmt.Errorf("export shard %d: %w", x.Shard, err)
	}
	if len(b) != frameHeadBytes+f.bytes {
		return fmt.Errorf("export shard %d: frame %d has %d bytes instead of %d", x.Shard, r.next, len(b)-frameHeadBytes, f.bytes)
	}
	r.buffer = endFrame(b, 0)
	r.rest = r.buffer[min(max(r.skip-f.offset, 0), int64(len(r.buffer))):]
	r.next++
	return nil
}
