package transfer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/exemplar"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// ErrConflict reports that series of a shard have other ids here than in a stream: the
// folder holds what another era of the shard gave them to, and the series table cannot
// forget a shard. Nothing was changed.
var ErrConflict = errors.New("series of the shard have other ids here, of an era that was lost; start the node on an empty data folder")

// ErrBehind reports that a stream is older than the replica that it should replace. Where
// that is wanted, the replica has to be dropped first. Nothing was changed.
var ErrBehind = errors.New("the replica is further on than the stream")

// installer receives a stream into files that nothing names until all is there.
type installer struct {
	o      *Options
	mover  *Mover
	shard  uint16
	header streamHeader
	r      replacement
	keys   keySpool
}

// InstallShard replaces the replica of a shard, or makes one, by what an Export
// gave. It does so in one step: after an error, or a crash, the shard is as it was.
// LogPosition is the end of the log: entries of the shard that stand before it are
// never applied again; those behind the Index of the result are to be applied next.
// No entry of the shard may be applied meanwhile.
//
// Errors: ErrStream for what is no stream of this shard; ErrConflict; ErrBehind;
// *segment.CorruptError for samples that were damaged at the sender;
// series.ErrOverloaded while another installation of the shard runs; those of the
// reader, the disk and the context. Close waits for it, so the reader must end then.
func (m *Mover) InstallShard(ctx context.Context, shard uint16, logPosition uint64, stream io.Reader) (ShardExport, error) {
	ctx, leave, err := m.enter(ctx, shard, ErrStream)
	if err != nil {
		return ShardExport{}, err
	}
	defer leave()
	if m.installing[shard].Swap(true) {
		return ShardExport{}, fmt.Errorf("%w: shard %d is being installed", series.ErrOverloaded, shard)
	}
	defer m.installing[shard].Store(false)
	in := &installer{o: &m.o, mover: m, shard: shard}
	in.r.LogPosition = logPosition
	err = in.install(ctx, stream)
	if cleanErr := in.clean(); cleanErr != nil {
		m.o.Logger.Error("files of an installation stay on disk until the next start", "shard", shard, "error", cleanErr)
	}
	if err != nil {
		return ShardExport{}, fmt.Errorf("install shard %d: %w", shard, err)
	}
	return in.header.ShardExport, nil
}

func (in *installer) install(ctx context.Context, stream io.Reader) error {
	if err := in.receive(ctx, &frameReader{r: stream}); err != nil {
		return err
	}
	if err := in.verify(ctx); err != nil {
		return err
	}
	if err := in.o.Hit(FailInstallKeys); err != nil {
		return err
	}
	// A key that is there counts as created, though its series may be forgotten here until the replica is replaced.
	defer in.o.Index.HoldKeys()()
	if err := in.keys.each(in.checkKey); err != nil {
		return err
	}
	if err := in.keys.each(in.createKey); err != nil {
		return err
	}
	defer in.announce()()
	if err := in.markDays(); err != nil {
		return err
	}
	if err := in.o.Hit(FailInstallMarked); err != nil {
		return err
	}
	return in.mover.replace(in.shard, &in.r)
}

// announce makes retention keep the marks of the months that the replica has samples in, though
// it is not there yet. The result ends that.
func (in *installer) announce() (end func()) {
	defer in.o.Files.Edit().End()
	in.mover.arriving[in.shard] = in.r.CutMs
	return func() {
		defer in.o.Files.Edit().End()
		delete(in.mover.arriving, in.shard)
	}
}

func (in *installer) path(part any) string {
	return path.Join(in.o.Files.Folder(), fmt.Sprintf("install-%d-%v%s", in.shard, part, segment.TemporarySuffix))
}

// clean removes what did not get a final name.
func (in *installer) clean() error {
	problems := []error{in.keys.remove(in.o.FS)}
	for _, name := range in.r.files {
		if err := in.o.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// receive takes all frames.
func (in *installer) receive(ctx context.Context, frames *frameReader) error {
	if err := in.receiveHeader(frames); err != nil {
		return err
	}
	kind, payload, err := frames.next()
	if err == nil && kind != frameBatches {
		err = fmt.Errorf("%w: a frame of kind %d where batch ids should be", ErrStream, kind)
	}
	if err == nil {
		if in.r.Batches, err = dedup.DecodeTable(payload); err != nil {
			err = fmt.Errorf("%w: %w", ErrStream, err)
		}
	}
	if err != nil {
		return err
	}
	if kind, payload, err = in.receiveTombstones(frames); err != nil {
		return err
	}
	if kind, payload, err = in.receiveForgotten(frames, kind, payload); err != nil {
		return err
	}
	if kind, payload, err = in.receiveKeys(frames, kind, payload); err != nil {
		return err
	}
	for number, size := range in.header.Segments {
		if kind, payload, err = in.receiveSegment(ctx, frames, number, size, kind, payload); err != nil {
			return err
		}
	}
	if kind != frameEnd || len(payload) > 0 {
		return fmt.Errorf("%w: a frame of kind %d where it should end", ErrStream, kind)
	}
	return nil
}

func (in *installer) receiveHeader(frames *frameReader) error {
	kind, payload, err := frames.next()
	if err != nil {
		return err
	}
	h := &in.header
	if kind != frameHeader {
		return fmt.Errorf("%w: it begins with a frame of kind %d", ErrStream, kind)
	}
	if err := json.Unmarshal(payload, h); err != nil {
		return fmt.Errorf("%w: header: %w", ErrStream, err)
	}
	switch {
	case h.Format < streamFormat || h.Format > streamFormatGaps:
		return fmt.Errorf("%w: format %d; this program reads formats %d to %d", ErrStream, h.Format, streamFormat, streamFormatGaps)
	case h.Forgotten > h.Series || h.NoKeys && h.Forgotten == 0 || h.Format != formatOf(&h.ShardExport):
		return fmt.Errorf("%w: format %d, and %d of %d series are forgotten", ErrStream, h.Format, h.Forgotten, h.Series)
	case h.Shards != len(in.o.Shards) || h.Shard != in.shard:
		return fmt.Errorf("%w: it brings shard %d of %d, not %d of %d", ErrStream, h.Shard, h.Shards, in.shard, len(in.o.Shards))
	case h.Through < h.Index:
		return fmt.Errorf("%w: it brings entries %d to %d", ErrStream, h.Index, h.Through)
	}
	if applied := in.o.Shards[in.shard].Applied(); h.Index < applied {
		return fmt.Errorf("%w: it stands for entry %d, the replica for %d", ErrBehind, h.Index, applied)
	}
	in.r.Applied, in.r.CutMs = h.Index, h.CutMs
	// It may be ahead of the entry: that of a sender which has started and is still on its way to where it was.
	if in.r.Exemplars, err = exemplar.Decode(h.Exemplars); err != nil {
		return fmt.Errorf("%w: header: %w", ErrStream, err)
	}
	in.r.Rules, err = retention.NewTable(h.RuleCuts, in.mover.tables(Shard.Rules))
	if err == nil {
		in.r.Thin, err = retention.NewTable(h.ThinCuts, in.mover.tables(Shard.Thin))
	}
	if err != nil {
		return fmt.Errorf("%w: header: %w", ErrStream, err)
	}
	return nil
}

func (in *installer) receiveTombstones(frames *frameReader) (kind uint8, payload []byte, err error) {
	for {
		if kind, payload, err = frames.next(); err != nil || kind != frameTombstone {
			return kind, payload, err
		}
		t, err := decodeStreamTombstone(payload)
		if err != nil {
			return 0, nil, err
		}
		if t.hides > uint64(len(in.header.Segments)) || len(in.r.stones) == manifest.TombstonesMax {
			return 0, nil, fmt.Errorf("%w: a tombstone over %d segments", ErrStream, t.hides)
		}
		in.r.stones = append(in.r.stones, t)
	}
}

func (in *installer) receiveForgotten(frames *frameReader, kind uint8, payload []byte) (uint8, []byte, error) {
	for kind == frameForgotten {
		ids, err := entry.ParseIDs(payload)
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", ErrStream, err)
		}
		of := in.r.Forgotten
		if len(ids) == 0 || len(of) > 0 && ids[0] <= of[len(of)-1] || ids[len(ids)-1] >= in.header.Series {
			return 0, nil, fmt.Errorf("%w: ids that are forgotten do not grow up to %d", ErrStream, in.header.Series)
		}
		in.r.Forgotten = append(of, ids...)
		if kind, payload, err = frames.next(); err != nil {
			return 0, nil, err
		}
	}
	if len(in.r.Forgotten) != int(in.header.Forgotten) {
		return 0, nil, fmt.Errorf("%w: %d ids of %d that are forgotten", ErrStream, len(in.r.Forgotten), in.header.Forgotten)
	}
	return kind, payload, nil
}

func (in *installer) receiveKeys(frames *frameReader, kind uint8, payload []byte) (uint8, []byte, error) {
	if err := in.keys.create(in.o.FS, in.path("keys")); err != nil {
		return 0, nil, err
	}
	for kind == frameKeys {
		err := in.keys.add(payload, in.header.Series)
		if err == nil {
			kind, payload, err = frames.next()
		}
		if err != nil {
			return 0, nil, err
		}
	}
	if in.keys.count != in.header.Series {
		return 0, nil, fmt.Errorf("%w: %d keys of %d", ErrStream, in.keys.count, in.header.Series)
	}
	return kind, payload, nil
}

// receiveSegment writes one file and makes its bytes durable, beginning with a frame
// that has been read.
func (in *installer) receiveSegment(ctx context.Context, frames *frameReader, number int, size int64, kind uint8, payload []byte) (uint8, []byte, error) {
	name := in.path(number)
	file, err := in.o.FS.Create(name)
	if err != nil {
		return 0, nil, fmt.Errorf("create a segment: %w", err)
	}
	in.r.files = append(in.r.files, name)
	for at := int64(0); at < size && err == nil; {
		if err = ctx.Err(); err != nil {
			break
		}
		if kind != frameSegment || len(payload) == 0 || int64(len(payload)) > size-at {
			err = fmt.Errorf("%w: a frame of kind %d at byte %d of %d of segment %d", ErrStream, kind, at, size, number)
			break
		}
		if _, err = file.WriteAt(payload, at); err != nil {
			err = fmt.Errorf("write a segment: %w", err)
			break
		}
		at += int64(len(payload))
		kind, payload, err = frames.next()
	}
	if err == nil {
		err = file.Sync()
	}
	return kind, payload, errors.Join(err, file.Close())
}

// verify reads all samples of the segments and compares them with their digests. Of a file
// whose samples are right and whose digests by day are not it drops the latter: what a disk has
// lost of them is no reason to keep the shard from being copied.
func (in *installer) verify(ctx context.Context) error {
	for _, name := range in.r.files {
		var digests *segment.CorruptError
		err := in.withSegment(name, func(r *segment.Reader) error {
			m := r.Meta()
			if m.ShardLow != in.header.Shard || m.ShardHigh != in.header.Shard {
				return fmt.Errorf("%w: a segment of shards %d to %d", ErrStream, m.ShardLow, m.ShardHigh)
			}
			if err := r.Verify(ctx); err != nil && (!errors.As(err, &digests) || digests.Part != segment.PartDayDigests) {
				return err
			}
			return r.EachSeries(in.header.Shard, func(info segment.SeriesInfo) error {
				if info.ID >= in.header.Series {
					return fmt.Errorf("%w: samples of series %d of %d", ErrStream, info.ID, in.header.Series)
				}
				return nil
			})
		})
		if err == nil && digests != nil {
			in.o.Logger.Warn("digests by day were damaged at the sender; they are left out, and samples are read until the file is merged",
				"shard", in.shard, "error", digests)
			err = segment.DropDayDigests(in.o.FS, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (in *installer) withSegment(name string, do func(*segment.Reader) error) error {
	r, err := segment.Open(in.o.FS, name)
	if err != nil {
		return err
	}
	return errors.Join(do(r), r.Release())
}

// checkKey makes sure that a key can have its id here.
func (in *installer) checkKey(id series.ID, key series.Key) error {
	x := in.o.Index
	if len(key) == 0 && in.header.NoKeys && in.forgets(id) {
		return nil // it is that of none here
	}
	if _, _, _, err := key.Parts(nil); err != nil {
		return fmt.Errorf("%w: key of series %d: %w", ErrStream, id, err)
	}
	if shard := in.o.Sharding().Of(key); shard != in.shard {
		return fmt.Errorf("%w: series %s belongs to shard %d", ErrStream, key, shard)
	}
	known := x.ShardSeries(in.shard)
	if known > in.header.Series {
		return fmt.Errorf("%w: there are %d, the stream has %d", ErrConflict, known, in.header.Series)
	}
	if local, taken := x.Local(in.shard, id); taken {
		own, err := x.Key(local, nil)
		if err == nil && string(own) != string(key) {
			err = fmt.Errorf("%w: series %d is %s, and %s in the stream", ErrConflict, id, own, key)
		}
		return err
	}
	// A key that has another id here has that in the stream, too, as all ids have been compared, or will be: it is
	// forgotten, or an entry behind those of the stream is going to forget it.
	ref, found, err := x.Lookup(key)
	// Nothing is known of the key of one whose record was dropped.
	dropped := uint32(id) < known
	if err == nil && found && (ref.Shard != in.shard || ref.ID > id && !dropped) {
		err = fmt.Errorf("%w: %s is series %d of shard %d, not series %d", ErrConflict, key, ref.ID, ref.Shard, id)
	}
	return err
}

// forgets reports whether the replica has forgotten an id.
func (in *installer) forgets(id series.ID) bool {
	_, gone := slices.BinarySearch(in.r.Forgotten, uint32(id))
	return gone
}

// createKey makes the series. Should the installation end here they do no harm: an
// id means the same series for ever.
func (in *installer) createKey(id series.ID, key series.Key) error {
	if _, taken := in.o.Index.Local(in.shard, id); taken {
		return nil
	}
	if in.forgets(id) && (len(key) == 0 || uint32(id) < in.o.Index.ShardSeries(in.shard)) {
		return in.o.Index.MakeGap(in.shard, id) // one that was given stays what it is
	}
	_, err := in.o.Index.CreateTwin(in.shard, id, key, index.DayOf(math.MinInt64))
	return err
}

// markDays makes queries find the series that have samples.
func (in *installer) markDays() error {
	for _, name := range in.r.files {
		err := in.withSegment(name, func(r *segment.Reader) error {
			return r.EachSeries(in.header.Shard, func(info segment.SeriesInfo) error {
				in.o.Index.MarkActiveWithin(in.shard, series.ID(info.ID), info.MinMs, info.MaxMs)
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keySpool is a file of the keys of a stream, so that none is made before all have
// been checked, and memory is bounded.
type keySpool struct {
	file  vfs.File
	bytes int64
	count uint32
}

func (k *keySpool) create(fs vfs.FS, name string) (err error) {
	if k.file, err = fs.Create(name); err != nil {
		return fmt.Errorf("create a file of keys: %w", err)
	}
	return nil
}

// add checks a payload of whole keys and keeps it.
func (k *keySpool) add(payload []byte, countMax uint32) error {
	for rest := payload; len(rest) > 0; k.count++ {
		n, used := binary.Uvarint(rest)
		if used <= 0 || n > uint64(len(rest)-used) || n > series.KeyBytesMax || k.count == countMax {
			return fmt.Errorf("%w: key %d of %d", ErrStream, k.count, countMax)
		}
		rest = rest[used+int(n):]
	}
	if _, err := k.file.WriteAt(payload, k.bytes); err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	k.bytes += int64(len(payload))
	return nil
}

// each visits all keys by id.
func (k *keySpool) each(visit func(series.ID, series.Key) error) error {
	buffer := make([]byte, 0, frameBytes+binary.MaxVarintLen64+series.KeyBytesMax)
	id, at := series.ID(0), int64(0)
	for at < k.bytes || len(buffer) > 0 {
		if n := min(int64(cap(buffer)-len(buffer)), k.bytes-at); n > 0 {
			part := buffer[len(buffer) : len(buffer)+int(n)]
			if _, err := k.file.ReadAt(part, at); err != nil {
				return fmt.Errorf("read keys: %w", err)
			}
			buffer, at = buffer[:len(buffer)+int(n)], at+n
		}
		rest := buffer
		for len(rest) > 0 {
			n, used := binary.Uvarint(rest)
			if used <= 0 || n > uint64(len(rest)-used) {
				break // the rest of it comes with the next read
			}
			if err := visit(id, series.Key(rest[used:used+int(n)])); err != nil {
				return err
			}
			rest, id = rest[used+int(n):], id+1
		}
		if len(rest) == len(buffer) {
			return fmt.Errorf("%w: keys changed on disk", ErrStream)
		}
		buffer = buffer[:copy(buffer, rest)]
	}
	return nil
}

func (k *keySpool) remove(fs vfs.FS) error {
	if k.file == nil {
		return nil
	}
	return errors.Join(k.file.Close(), fs.Remove(k.file.Name()))
}
