package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// persistRule describes what is worth a file.
type persistRule struct {
	table int // new series, at least, for another persisted table
	share int // and one in so many of those that it has
	part  uint32
}

// persistSeriesMinDefault is that of Options.PersistSeriesMin.
const persistSeriesMinDefault = 1 << 15

const (
	offsetsFileName = "offsets"
	offsetsMagic    = "TMOFFS\r\n"
	idsFileName     = "ids"
	idsMagic        = "TMSIDS\r\n"
	tablePrefix     = "table-"
	partPrefix      = "postings-"

	idHeadBytes  = 8 // u32 shard · u32 number of the chunk
	idChunkBytes = int(unsafe.Sizeof(idChunk{}))
)

// persister keeps what series below a count need in files that are mapped: places and shards of their
// records (offsets), their local ids by shard (ids), the hash table and the postings. All of it follows
// from the file of keys. What cannot be read is built from that as if it were not there, and what
// cannot be written stays in memory. Its fields are guarded by Index.syncing.
type persister struct {
	fs       vfs.FS
	dir      string
	rule     persistRule
	offsets  *chunkFile
	ids      *chunkFile
	files    uint64       // numbers given
	reserve  int64        // bytes of the disk that are left to others
	existing []string     // files of tables and parts, and of what is forgotten, that there are
	failures atomic.Int64 // times that something could not be written
}

func newPersister(o *Options) *persister {
	s := &persister{
		fs: o.FS, dir: o.Dir, rule: o.persist, reserve: o.DiskReserve,
		offsets: newChunkFile(o.FS, path.Join(o.Dir, offsetsFileName), offsetsMagic, offsetsBytes),
		ids:     newChunkFile(o.FS, path.Join(o.Dir, idsFileName), idsMagic, idHeadBytes+idChunkBytes),
	}
	s.offsets.readOnly, s.ids.readOnly = o.ReadOnly, o.ReadOnly
	if s.rule == (persistRule{}) {
		least := cmp.Or(o.PersistSeriesMin, persistSeriesMinDefault)
		s.rule = persistRule{table: least, share: 8, part: uint32(least)}
	}
	return s
}

// persistedOffsets are what is read of a file of offsets.
type persistedOffsets struct {
	chunks []*offsets
	seals  []*offsetsSeal
	lost   int64
}

// openOffsets maps the chunks of the file of offsets.
func (s *persister) openOffsets(o *Options, dropped *bitSet) (found persistedOffsets, err error) {
	count := o.State.Persisted.Offsets
	var lost atomic.Int64
	found.seals = make([]*offsetsSeal, count)
	err = s.offsets.open(count, o.Workers, func(n uint32, payload []byte) error {
		found.seals[n] = newOffsetsSeal(payload)
		c := offsetsOf(payload)
		for i, delta := range c.delta {
			if delta == offsetLost {
				if !dropped.has(n<<offsetChunkBits + uint32(i)) {
					lost.Add(1)
				}
			} else if place := c.base + int64(delta); place < keyHeaderBytes || place+recordBytesMin > o.State.Bytes {
				return &CorruptError{File: s.offsets.name, Offset: s.offsets.place(n), What: fmt.Sprintf("a record is at byte %d", place)}
			}
		}
		return nil
	})
	if err != nil {
		return persistedOffsets{}, err
	}
	for n := range count {
		found.chunks = append(found.chunks, offsetsOf(s.offsets.payload(n)))
	}
	found.lost = lost.Load()
	return found, nil
}

// openIDs maps the chunks of the file of ids, by shard and number, but for those that are not what the state means.
func (s *persister) openIDs(o *Options, f *forgets) (map[uint16]map[uint32]*sealedIDs, error) {
	sealed := make([]*sealedIDs, o.State.Persisted.IDs)
	err := s.ids.open(o.State.Persisted.IDs, o.Workers, func(n uint32, payload []byte) error {
		shard, number := binary.LittleEndian.Uint32(payload), binary.LittleEndian.Uint32(payload[4:])
		if uint64(shard) >= uint64(len(o.State.Next)) || (uint64(number)+1)*idChunkEntries > uint64(o.State.Next[shard]) {
			return nil // of a replica before: see BeginAgain
		}
		// One that a later Sync has written again, as an id got another record, has series that are not there.
		gone := f.of(uint16(shard))
		if idChunkOf(payload).complete(o.State.Count, func(i int) bool { return gone.Has(number*idChunkEntries + uint32(i)) }) {
			sealed[n] = sealIDs(n, payload)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	found := map[uint16]map[uint32]*sealedIDs{}
	for n := range s.ids.count.Load() {
		if sealed[n] == nil {
			continue
		}
		payload := s.ids.payload(n)
		shard, number := uint16(binary.LittleEndian.Uint32(payload)), binary.LittleEndian.Uint32(payload[4:])
		if found[shard] == nil {
			found[shard] = map[uint32]*sealedIDs{}
		}
		found[shard][number] = sealed[n]
	}
	return found, nil
}

// openParts maps the parts that can be read, in the order of their series.
func (s *persister) openParts(o *Options) []*part {
	found := make([]*part, len(o.State.Persisted.Parts))
	_ = parallel(o.Workers, len(found), func(i int) error {
		of := o.State.Persisted.Parts[i]
		p, err := openPart(s.fs, path.Join(s.dir, partFile(of.File)), of.From, of.To)
		if err != nil {
			reportUnusable(o, err)
			return nil
		}
		p.file = of.File
		found[i] = p
		return nil
	})
	return slices.DeleteFunc(found, func(p *part) bool { return p == nil })
}

// reportUnusable describes a file that cannot be used. One that is missing was removed beside an older
// manifest, or by somebody to have it made again.
func reportUnusable(o *Options, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.Corrupt(fmt.Errorf("series table: it is built again from the keys: %w", err))
	}
}

// findFiles notes which files of tables and parts, and of what is forgotten, there are.
func (s *persister) findFiles() error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("series table: %w", err)
	}
	for _, name := range names {
		for _, prefix := range []string{tablePrefix, partPrefix, forgottenPrefix} {
			if text, ok := strings.CutPrefix(name, prefix); ok {
				if n, err := strconv.ParseUint(text, 10, 64); err == nil {
					s.files = max(s.files, n+1)
					s.existing = append(s.existing, name)
				}
			}
		}
	}
	return nil
}

// newFile returns the name of a file that was never one before.
func (s *persister) newFile(prefix string) (n uint64, name string) {
	n = s.files
	s.files++
	name = prefix + strconv.FormatUint(n, 10)
	s.existing = append(s.existing, name)
	return n, path.Join(s.dir, name)
}

// room returns an error if a file of so many bytes would take what is left to others.
func (s *persister) room(bytes int64) error {
	free, err := s.fs.Free(s.dir)
	if err != nil {
		return err
	}
	if free-s.reserve < bytes {
		return fmt.Errorf("%w: %d bytes are wanted, %d are free and %d of them are for others", errNoRoom, bytes, free, s.reserve)
	}
	return nil
}

var errNoRoom = errors.New("no room for files of the series table")
