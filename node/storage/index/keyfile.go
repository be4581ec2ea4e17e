package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const (
	keyFileName    = "keys"
	keyFileMagic   = "TMKEYS\r\n"
	keyFileVersion = 1
	keyHeaderBytes = 16

	// No record crosses the border of a block, so that a block is either the
	// anonymous memory that is being filled or a window of the mapping, and a
	// damaged length loses the way for one block at most.
	blockBits  = 18
	blockBytes = 1 << blockBits

	mapBytesMin = 1 << 20 // the first mapping; later ones double

	countMax = 1<<32 - 1 // LocalNone is nobody's
)

type block [blockBytes]byte

// keyFile is the append-only file of keys. Readers take no lock: what they reach
// by a local id below count never changes.
type keyFile struct {
	file       vfs.File
	failpoints *failpoint.Set
	count      atomic.Uint32
	offsets    atomic.Pointer[[]*offsets]
	seals      atomic.Pointer[[]*offsetsSeal] // of the offsets that are mapped; nil: in memory
	damaged    func(error)                    // told of offsets that are rotten
	hidden     *bitSet                        // series that are not found by their keys: see forgets
	dropped    *bitSet                        // series whose records count for nothing: see gaps.go
	blocks     atomic.Pointer[[]*block]       // copied when a block is added
	damages    atomic.Int64                   // met by intact
	unread     bool                           // a block could not be read at the start: it may be whole all the same

	mu struct {
		sync.Mutex
		tail     *block // the last of blocks, in anonymous memory
		used     int    // bytes of the tail in use
		flushed  int    // bytes of the tail written to the file
		mapped   int64  // bytes of the file within the last mapping
		mappings []*vfs.Mapping
		healed   []uint32 // chunks of offsets that are to be written again
		closed   bool
	}
	sync struct {
		sync.Mutex
		bytes  int64 // durable
		failed error
	}
}

// record returns the record of a series that exists, with more bytes behind it;
// nil when it is lost. Of one that is dropped it means nothing.
func (f *keyFile) record(local uint32) []byte {
	chunk := (*f.offsets.Load())[local>>offsetChunkBits]
	delta := chunk.delta[local%offsetChunk]
	if delta == offsetLost {
		return nil
	}
	return f.recordAt(chunk.base + int64(delta))
}

// recordAt returns what is at a place in the file; nil: no record can be there.
func (f *keyFile) recordAt(place int64) []byte {
	blocks := *f.blocks.Load()
	if n := place >> blockBits; uint64(n) < uint64(len(blocks)) {
		if record := blocks[n][place&(blockBytes-1):]; len(record) >= recordBytesMin {
			return record
		}
	}
	return nil
}

// intact returns the record of a series that exists, checked again: a disk may read
// now what is not what it read when the file was opened. Errors: ErrUnknown, ErrForgotten,
// *CorruptError.
func (f *keyFile) intact(local uint32) ([]byte, error) {
	if f.dropped.has(local) {
		return nil, unknownLocal(local)
	}
	record, ok := cutRecord(f.record(local))
	if !ok || !validRecord(record, local) {
		f.healPlace(local)
		if f.record(local) == nil {
			return nil, fmt.Errorf("%w: the record of series %d is lost", ErrUnknown, local)
		}
		record, ok = cutRecord(f.record(local))
	}
	if (!ok || !validRecord(record, local)) && f.dropped.has(local) { // meanwhile
		return nil, unknownLocal(local)
	}
	if !ok || !validRecord(record, local) {
		f.damages.Add(1)
		return nil, &CorruptError{File: f.file.Name(), Offset: f.offset(local), What: fmt.Sprintf("the key of series %d", local)}
	}
	return record, nil
}

// unknownLocal is the error of a series whose record was dropped.
func unknownLocal(local uint32) error {
	return fmt.Errorf("series %d: %w", local, ErrForgotten)
}

// offset returns where the record of a series is that is not lost.
func (f *keyFile) offset(local uint32) int64 {
	chunk := (*f.offsets.Load())[local>>offsetChunkBits]
	return chunk.base + int64(chunk.delta[local%offsetChunk])
}

// setLost makes record give nil. It is for Open, before anyone else reads.
func (f *keyFile) setLost(local uint32) {
	(*f.offsets.Load())[local>>offsetChunkBits].delta[local%offsetChunk] = offsetLost
}

// shard returns the shard of a series that is not lost.
func (f *keyFile) shard(local uint32) uint16 {
	return (*f.offsets.Load())[local>>offsetChunkBits].shards[local%offsetChunk]
}

// setOffset notes where the record of a new local id is; local ids come in order.
func (f *keyFile) setOffset(local uint32, at int64, shard uint16) {
	chunks := f.growOffsets(local, at)
	c := chunks[local>>offsetChunkBits]
	c.delta[local%offsetChunk] = uint32(at - c.base)
	c.shards[local%offsetChunk] = shard
}

// growOffsets makes room for local, the record of which is at or after at.
func (f *keyFile) growOffsets(local uint32, at int64) []*offsets {
	var chunks []*offsets
	if p := f.offsets.Load(); p != nil {
		chunks = *p
	}
	if int(local>>offsetChunkBits) == len(chunks) {
		// Readers of the shorter slice never look at what append adds.
		chunks = append(chunks, &offsets{base: at &^ (blockBytes - 1)})
		f.offsets.Store(&chunks)
	}
	return chunks
}

// appendLocked writes a record to the tail. Nobody sees it before publishLocked.
func (f *keyFile) appendLocked(shard uint16, id series.ID, key series.Key) (uint32, error) {
	if f.mu.closed {
		return 0, ErrClosed
	}
	local := f.count.Load()
	if local >= countMax {
		return 0, ErrFull
	}
	if f.mu.used+recordKeyAt+len(key) > blockBytes {
		if int64(len(*f.blocks.Load()))<<blockBits > slotPlaceMask {
			return 0, ErrFull
		}
		if err := f.nextBlockLocked(); err != nil {
			return 0, err
		}
	}
	tailAt := int64(len(*f.blocks.Load())-1) << blockBits
	f.setOffset(local, tailAt+int64(f.mu.used), shard)
	f.mu.used += putRecord(f.mu.tail[f.mu.used:], local, shard, id, key)
	return local, nil
}

func (f *keyFile) publishLocked(local uint32) { f.count.Store(local + 1) }

// flushLocked writes what the file does not have of the tail.
func (f *keyFile) flushLocked() error {
	if f.mu.flushed == f.mu.used {
		return nil
	}
	if err := f.failpoints.Hit(PointKeyWrite); err != nil {
		return err
	}
	tailAt := int64(len(*f.blocks.Load())-1) << blockBits
	if _, err := f.file.WriteAt(f.mu.tail[f.mu.flushed:f.mu.used], tailAt+int64(f.mu.flushed)); err != nil {
		return fmt.Errorf("series keys: %w", err)
	}
	f.mu.flushed = f.mu.used
	return nil
}

// nextBlockLocked puts the mapped block in the place of the full tail, and begins
// a new tail. After an error it may be called again.
func (f *keyFile) nextBlockLocked() error {
	if err := f.flushLocked(); err != nil {
		return err
	}
	blocks := *f.blocks.Load()
	last := len(blocks) - 1
	if err := f.mapLocked(int64(len(blocks)) << blockBits); err != nil {
		return err
	}
	next := make([]*block, last+2)
	copy(next, blocks)
	next[last] = f.mappedBlockLocked(last)
	next[last+1] = new(block)
	f.mu.tail, f.mu.used, f.mu.flushed = next[last+1], 0, 0
	f.blocks.Store(&next)
	return nil
}

// mapLocked makes the last mapping reach to end at least. Older mappings stay:
// readers may hold addresses in them.
func (f *keyFile) mapLocked(end int64) error {
	if end <= f.mu.mapped {
		return nil
	}
	length := int64(mapBytesMin)
	for length < end {
		length *= 2
	}
	// The file grows without taking blocks of the disk; WriteAt takes them.
	if err := f.file.Truncate(length); err != nil {
		return fmt.Errorf("series keys: %w", err)
	}
	return f.mapWholeLocked(length)
}

// mapWholeLocked maps the first length bytes of the file, which it has; 0: none.
func (f *keyFile) mapWholeLocked(length int64) error {
	if length == 0 {
		return nil
	}
	m, err := f.file.Map(length)
	if err != nil {
		return fmt.Errorf("series keys: %w", err)
	}
	f.mu.mappings = append(f.mu.mappings, m)
	f.mu.mapped = length
	return nil
}

func (f *keyFile) mappedBlockLocked(n int) *block {
	b := f.mu.mappings[len(f.mu.mappings)-1].Bytes()
	return (*block)(b[n<<blockBits : (n+1)<<blockBits])
}

// flush writes the tail to the file and returns what there is. Nothing is added
// while snapshot runs.
func (f *keyFile) flush(snapshot func(count uint32, bytes int64)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed {
		return ErrClosed
	}
	if err := f.flushLocked(); err != nil {
		return err
	}
	snapshot(f.count.Load(), f.bytesLocked())
	return nil
}

func (f *keyFile) bytesLocked() int64 {
	return int64(len(*f.blocks.Load())-1)<<blockBits + int64(f.mu.used)
}

// makeDurable syncs what was flushed, unless it is durable already.
func (f *keyFile) makeDurable(bytes int64) error {
	f.sync.Lock()
	defer f.sync.Unlock()
	switch {
	case f.sync.failed != nil:
		return f.sync.failed
	case bytes <= f.sync.bytes:
		return nil
	}
	if err := f.file.Sync(); err != nil {
		f.sync.failed = fmt.Errorf("%w: %w", ErrFailed, err)
		return f.sync.failed
	}
	f.sync.bytes = bytes
	return nil
}

// openKeyFile opens or makes the file and maps it; scanning is for the caller.
func openKeyFile(o *Options) (f *keyFile, err error) {
	name := path.Join(o.Dir, keyFileName)
	f = &keyFile{failpoints: o.Failpoints, hidden: new(bitSet), dropped: new(bitSet)}
	if o.State.Bytes == 0 {
		err = f.create(o.FS, name)
	} else {
		err = f.openExisting(o, name)
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *keyFile) create(fsys vfs.FS, name string) (err error) {
	if f.file, err = fsys.Create(name); err != nil {
		return err
	}
	tail := new(block)
	putKeyHeader(tail[:])
	f.mu.tail, f.mu.used = tail, keyHeaderBytes
	f.blocks.Store(&[]*block{tail})
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.flushLocked(); err != nil {
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}

func (f *keyFile) openExisting(o *Options, name string) (err error) {
	open := o.FS.OpenReadWrite
	if o.ReadOnly {
		open = o.FS.Open
	}
	if f.file, err = open(name); err != nil {
		return fmt.Errorf("series keys: %w", err)
	}
	size, err := f.file.Size()
	if err != nil {
		return err
	}
	if size < o.State.Bytes {
		o.Corrupt(&CorruptError{File: name, Offset: size, What: fmt.Sprintf("%d bytes are missing", o.State.Bytes-size)})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last := int((o.State.Bytes - 1) >> blockBits)
	if o.ReadOnly {
		err = f.mapWholeLocked(int64(last) << blockBits)
	} else if err = f.file.Truncate(o.State.Bytes); err == nil {
		err = f.mapLocked(int64(last+1) << blockBits)
	}
	if err != nil {
		return fmt.Errorf("series keys: %w", err)
	}
	blocks := make([]*block, last+1)
	for i := range last {
		blocks[i] = f.mappedBlockLocked(i)
	}
	f.mu.tail = new(block)
	f.mu.used = int(o.State.Bytes - int64(last)<<blockBits)
	f.mu.flushed = f.mu.used
	blocks[last] = f.mu.tail
	f.blocks.Store(&blocks)
	f.sync.bytes = o.State.Bytes
	if _, err := f.file.ReadAt(f.mu.tail[:f.mu.used], int64(last)<<blockBits); err != nil {
		// The rest of the keys is worth more than this block: it counts as damaged.
		f.unread = true
		o.Corrupt(&CorruptError{File: name, Offset: int64(last) << blockBits, What: err.Error()})
	}
	return f.checkHeader(o, name)
}

// checkHeader refuses other versions. A damaged header costs nothing else, as
// every record has its own checksum; it is written again.
func (f *keyFile) checkHeader(o *Options, name string) error {
	var header [keyHeaderBytes]byte
	_, err := f.file.ReadAt(header[:], 0)
	what := "cannot read the header"
	if err == nil {
		var version uint32
		version, err = parseKeyHeader(header[:])
		if err == nil && version != keyFileVersion {
			return fmt.Errorf("%w: %s has version %d, known is %d", ErrVersion, name, version, keyFileVersion)
		}
		what = "header"
	}
	if err == nil {
		return nil
	}
	o.Corrupt(&CorruptError{File: name, What: fmt.Sprintf("%s: %v", what, err)})
	if o.ReadOnly {
		return nil
	}
	putKeyHeader(header[:])
	if _, err := f.file.WriteAt(header[:], 0); err != nil {
		return fmt.Errorf("series keys: %w", err)
	}
	return nil
}

func putKeyHeader(b []byte) {
	copy(b, keyFileMagic)
	binary.LittleEndian.PutUint32(b[8:], keyFileVersion)
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[:12], castagnoli))
}

func parseKeyHeader(b []byte) (version uint32, err error) {
	if string(b[:8]) != keyFileMagic {
		return 0, errors.New("the magic number is another")
	}
	if crc32.Checksum(b[:12], castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return 0, errors.New("the checksum does not agree")
	}
	return binary.LittleEndian.Uint32(b[8:]), nil
}

// close unmaps and closes. Nobody may read any more.
func (f *keyFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed {
		return ErrClosed
	}
	f.mu.closed = true
	var errs []error
	for _, m := range f.mu.mappings {
		errs = append(errs, m.Close())
	}
	if f.file != nil {
		errs = append(errs, f.file.Close())
	}
	return errors.Join(errs...)
}
