package archive

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tickmesh/tickmesh/api/series"
)

const (
	// ObjectBytesDefault is how large an object becomes, about. It is held in memory.
	ObjectBytesDefault = 16 << 20
	// ObjectBytesMax bounds it.
	ObjectBytesMax = 256 << 20

	saveObjects  = 16               // objects after which the manifest is written anew
	saveInterval = 30 * time.Second // and time
	closeTimeout = 20 * time.Second // for what is left when a backup is cut short
)

// WriterOptions say which backup is made.
type WriterOptions struct {
	Name    string
	Cluster string
	// Now returns the present time. Its first value is when the backup began.
	Now func() time.Time
	// Incremental lets it take units from the newest complete backup of the cluster.
	// Those of its own that was cut short are taken anyway.
	Incremental bool
	// ObjectBytes is how large an object becomes, about.
	ObjectBytes int64
}

// Wanted is what the cluster has of one metric in [FromMs, ToMs], both inclusive.
type Wanted struct {
	Database, Metric string
	FromMs, ToMs     int64
	Digest
	// Thinned: there are hours of which the last sample is kept, so units of hours belong to it.
	Thinned bool
}

// Writer writes a backup.
type Writer struct {
	store    Store
	options  WriterOptions
	manifest Manifest
	index    Index
	objects  map[string]int // of the index, by checksum
	sources  []*candidates
	zstd     *zstd.Encoder

	buffer  []byte // the object that is being made; empty: none is
	open    []int  // units that have a part in it, as their last one
	block   []byte
	payload []byte

	unsaved int // objects
	savedAt time.Time
}

// Begin begins a backup, or goes on with one of this name that was cut short. Errors:
// ErrUsed, ErrTarget, those of the storage.
func Begin(ctx context.Context, s Store, o WriterOptions) (*Writer, error) {
	if err := CheckName(o.Name); err != nil {
		return nil, err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, err
	}
	started := o.Now()
	w := &Writer{
		store: s, options: o, objects: map[string]int{}, zstd: encoder, savedAt: started,
		manifest: Manifest{Name: o.Name, Cluster: o.Cluster, StartedMs: started.UnixMilli()},
		index:    Index{Backup: o.Name},
	}
	if err := w.findSources(ctx); err != nil {
		return nil, errors.Join(err, encoder.Close())
	}
	return w, nil
}

// findSources looks for backups to take units from, and holds their objects.
func (w *Writer) findSources(ctx context.Context) error {
	list, err := List(ctx, w.store)
	if err != nil {
		return err
	}
	var from []*Entry
	for i := range list {
		e := &list[i]
		switch {
		case e.Name != w.options.Name:
		case errors.Is(e.Err, ErrEncrypted) || errors.Is(e.Err, ErrSignature):
			return fmt.Errorf("%s: %w: there is a backup %q of others: %w", w.store, ErrUsed, e.Name, e.Err)
		case e.Complete():
			return fmt.Errorf("%s: %w: %q is a complete backup; choose another name", w.store, ErrUsed, e.Name)
		case e.Manifest != nil && e.Manifest.Cluster != w.options.Cluster:
			return fmt.Errorf("%s: %w: %q is a backup of cluster %q, not %q", w.store, ErrUsed, e.Name, e.Manifest.Cluster, w.options.Cluster)
		case e.Manifest != nil:
			from = append(from, e)
		}
	}
	if e := newest(list, w.options.Cluster, true); e != nil && w.options.Incremental {
		from = append(from, e)
	}
	held := map[string]bool{}
	// What is taken stays encrypted as it is, so it must be so for the same recipients.
	from = slices.DeleteFunc(from, func(e *Entry) bool { return !slices.Equal(e.Manifest.Recipients, keysOf(w.store).marks) })
	for _, e := range from {
		x, err := readIndex(ctx, w.store, e.Manifest)
		if err != nil && !known(err) {
			return err
		}
		if err == nil { // else the samples are read from the cluster
			w.sources = append(w.sources, newCandidates(x))
			for _, o := range slices.Concat(x.Objects, x.Held) {
				if !held[o.SHA256] {
					held[o.SHA256] = true
					w.index.Held = append(w.index.Held, o)
				}
			}
		}
	}
	if err := w.save(ctx); err != nil {
		return err
	}
	return w.dropSources(ctx)
}

// dropSources does without what was deleted before it was held.
func (w *Writer) dropSources(ctx context.Context) error {
	kept := w.sources[:0]
	for _, c := range w.sources {
		_, err := readManifest(ctx, w.store, c.backup)
		if err != nil && !known(err) {
			return err
		}
		if err == nil {
			kept = append(kept, c)
		}
	}
	w.sources = kept
	if len(kept) == 0 {
		return nil
	}
	present, err := objectsPresent(ctx, w.store)
	for _, c := range kept {
		c.keep(present)
	}
	return err
}

// Take takes what it can of all that is wanted from earlier backups, and returns what is
// left to be read, in the same order. It is called once, with digests that were made after
// Begin.
func (w *Writer) Take(wanted []Wanted) (left []Wanted) {
	var all []taken
	for i := range wanted {
		for _, c := range w.sources {
			if units := c.find(&wanted[i]); units != nil {
				all = append(all, taken{i, c, units})
				break
			}
		}
	}
	drop := sparse(all)
	done := map[int]bool{}
	for _, t := range all {
		if t.uses(drop) {
			continue
		}
		done[t.wanted] = true
		for _, i := range t.units {
			w.take(t.from.index, &t.from.index.Units[i])
		}
	}
	for i := range wanted {
		if !done[i] {
			left = append(left, wanted[i])
		}
	}
	return left
}

func (w *Writer) take(x *Index, u *Unit) {
	own := *u
	own.Parts = nil
	for _, p := range u.Parts {
		p.Object = w.object(x.Objects[p.Object])
		own.Parts = append(own.Parts, p)
	}
	w.index.Units = append(w.index.Units, own)
}

// object returns the number of an object in the index.
func (w *Writer) object(o Object) int {
	number, ok := w.objects[o.SHA256]
	if !ok {
		number = len(w.index.Objects)
		w.objects[o.SHA256] = number
		w.index.Objects = append(w.index.Objects, o)
	}
	return number
}

// openObject is the number of the object that is being made.
const openObject = -1

// Unit adds a unit: fill calls its argument with the samples. One without samples is left
// out. When fill fails, nothing of the unit stays. Errors: those of fill and of the
// storage.
func (w *Writer) Unit(ctx context.Context, database, metric string, fromMs, toMs int64, fill func(Visitor) error) error {
	return w.unit(ctx, Unit{Database: []byte(database), Metric: []byte(metric), FromMs: fromMs, ToMs: toMs}, fill)
}

// Hours adds a unit of hours, as Unit does: fill calls its argument with the samples that tell of them (series.Hour), those of each
// series in order of time.
func (w *Writer) Hours(ctx context.Context, database, metric string, fill func(Visitor) error) error {
	return w.unit(ctx, Unit{Database: []byte(database), Metric: []byte(metric), Hours: true}, fill)
}

func (w *Writer) unit(ctx context.Context, unit Unit, fill func(Visitor) error) error {
	if err := w.begin(); err != nil {
		return err
	}
	u := &unitWriter{Writer: w, Unit: unit, start: len(w.buffer), undo: len(w.buffer)}
	if unit.Hours {
		u.FromMs, u.ToMs = math.MaxInt64, math.MinInt64
	}
	err := fill(func(key series.Key, timesMs []int64, values []float64) error {
		if unit.Hours && len(timesMs) > 0 { // it tells of these alone
			u.FromMs, u.ToMs = min(u.FromMs, timesMs[0]), max(u.ToMs, timesMs[len(timesMs)-1])
		}
		u.Add(key, timesMs, values)
		return u.add(ctx, key, timesMs, values)
	})
	if err == nil {
		err = w.flushBlock()
	}
	if err != nil {
		w.block, w.buffer = w.block[:0], w.buffer[:u.undo]
		return err
	}
	if u.Samples == 0 {
		return nil
	}
	if len(w.buffer) > u.start {
		u.Parts = append(u.Parts, Part{openObject, int64(u.start), int64(len(w.buffer) - u.start)})
		w.open = append(w.open, len(w.index.Units))
	}
	w.index.Units = append(w.index.Units, u.Unit)
	if int64(len(w.buffer)) < w.options.ObjectBytes {
		return nil
	}
	return w.seal(ctx)
}

// unitWriter is a unit that is being written.
type unitWriter struct {
	*Writer
	Unit
	start int // of the part in the present buffer
	undo  int // length of the buffer without the unit
}

func (u *unitWriter) add(ctx context.Context, key series.Key, timesMs []int64, values []float64) error {
	for len(timesMs) > 0 {
		n := min(len(timesMs), runSamplesMax)
		u.block = appendRun(u.block, key, timesMs[:n], values[:n])
		timesMs, values = timesMs[n:], values[n:]
		if len(u.block) < blockBytes {
			continue
		}
		if err := u.flushBlock(); err != nil {
			return err
		}
		if int64(len(u.buffer)) < u.options.ObjectBytes {
			continue
		}
		part := Part{openObject, int64(u.start), int64(len(u.buffer) - u.start)}
		if err := u.seal(ctx); err != nil {
			return err
		}
		part.Object = len(u.index.Objects) - 1
		u.Parts = append(u.Parts, part)
		if err := u.begin(); err != nil {
			return err
		}
		u.start, u.undo = len(u.buffer), len(u.buffer)
	}
	return nil
}

// begin begins an object. Its nonce makes it another one than all before, so that nobody
// deletes it as one that is no longer needed.
func (w *Writer) begin() error {
	if len(w.buffer) > 0 {
		return nil
	}
	w.buffer = binary.LittleEndian.AppendUint32(append(w.buffer, objectMagic...), objectVersion)
	var nonce [nonceBytes]byte
	_, err := rand.Read(nonce[:])
	w.buffer = append(w.buffer, nonce[:]...)
	return err
}

func (w *Writer) flushBlock() error {
	if len(w.block) == 0 {
		return nil
	}
	w.payload = w.zstd.EncodeAll(w.block, w.payload[:0])
	w.block = w.block[:0]
	w.buffer = binary.LittleEndian.AppendUint32(w.buffer, uint32(len(w.payload)))
	w.buffer = binary.LittleEndian.AppendUint32(w.buffer, crc32.Checksum(w.payload, castagnoli()))
	w.buffer = append(w.buffer, w.payload...)
	return nil
}

// seal stores the object that is being made, and now and then what there is so far.
func (w *Writer) seal(ctx context.Context) error {
	if len(w.buffer) <= objectHeaderBytes {
		return nil
	}
	o, err := putObject(ctx, w.store, w.buffer)
	if err != nil {
		return err
	}
	number := w.object(o)
	for _, i := range w.open {
		parts := w.index.Units[i].Parts
		parts[len(parts)-1].Object = number
	}
	w.manifest.Written += o.Bytes
	w.buffer, w.open = w.buffer[:0], w.open[:0]
	if w.unsaved++; w.unsaved < saveObjects && w.options.Now().Sub(w.savedAt) < saveInterval {
		return nil
	}
	return w.save(ctx)
}

// save writes what there is so far: index, then manifest.
func (w *Writer) save(ctx context.Context) error {
	w.sum()
	content, err := w.index.encode()
	if err != nil {
		return err
	}
	if w.manifest.Index, err = putObject(ctx, w.store, content); err != nil {
		return err
	}
	w.unsaved, w.savedAt = 0, w.options.Now()
	return writeManifest(ctx, w.store, &w.manifest)
}

func (w *Writer) sum() {
	m := &w.manifest
	m.Samples, m.Bytes, m.Units, m.Hours = 0, 0, int64(len(w.index.Units)), 0
	for i := range w.index.Units {
		if u := &w.index.Units[i]; u.Hours {
			m.Hours++
		} else {
			m.Samples += u.Samples
		}
	}
	for _, o := range w.index.Objects {
		m.Bytes += o.Bytes
	}
}

// Finish makes the backup complete, with so many series that have samples. Errors: those
// of the storage; ErrDamaged when an object is missing.
func (w *Writer) Finish(ctx context.Context, series int64) (*Manifest, error) {
	if err := w.seal(ctx); err != nil {
		return nil, err
	}
	present, err := objectsPresent(ctx, w.store)
	if err != nil {
		return nil, err
	}
	for i := range w.index.Objects {
		o := &w.index.Objects[i]
		if info, ok := present[o.SHA256]; !ok || info.Bytes != o.Bytes {
			return nil, fmt.Errorf("%s: %s is %w or missing, though the backup that is being written needs it: start again", w.store, o.key(), ErrDamaged)
		}
	}
	w.index.Held = nil
	w.manifest.FinishedMs, w.manifest.Series = w.options.Now().UnixMilli(), series
	if err := w.save(ctx); err != nil {
		return nil, err
	}
	return &w.manifest, w.zstd.Close()
}

// Abandon ends a backup that cannot be finished, and keeps what there is, if it can, for
// another Writer of this name.
func (w *Writer) Abandon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := w.seal(ctx)
	if err == nil && w.unsaved > 0 {
		err = w.save(ctx)
	}
	return errors.Join(err, w.zstd.Close())
}
