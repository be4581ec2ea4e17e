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

// PersistedState describes which files of persisted series count, and how much of them.
type PersistedState struct {
	Offsets uint32      `json:",omitempty"` // chunks of the file of offsets
	IDs     uint32      `json:",omitempty"` // chunks of the file of ids
	Table   *TableState `json:",omitempty"`
	Parts   []PartState `json:",omitempty"` // in the order of their series
	Files   uint64      `json:",omitempty"` // numbers given to files
}

// TableState is a persisted hash table: of the series below Count.
type TableState struct {
	File  uint64
	Count uint32
}

// PartState is the file of a part: of the series from From to To (excluded).
type PartState struct {
	File     uint64
	From, To uint32
}

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

// hostIsLittle reports whether numbers in memory are as they are in files. If they are not, no files
// of persisted series are used.
func hostIsLittle() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

func tableFile(n uint64) string { return tablePrefix + strconv.FormatUint(n, 10) }

func partFile(n uint64) string { return partPrefix + strconv.FormatUint(n, 10) }

// check refuses what no Sync can have given.
func (s *PersistedState) check(state *State) error {
	// Of ids there may be more than series: gaps have none.
	ok := uint64(s.Offsets)*offsetChunk <= uint64(state.Count) && s.IDs <= countMax/idChunkEntries
	ok = ok && (s.Table == nil || s.Table.Count <= state.Count)
	end := uint32(0)
	for _, p := range s.Parts {
		ok = ok && p.From >= end && p.To > p.From && p.To <= state.Count
		end = p.To
	}
	if !ok {
		return fmt.Errorf("series table: %+v is not persisted of %d series", *s, state.Count)
	}
	return nil
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

func offsetsOf(payload []byte) *offsets {
	return (*offsets)(unsafe.Pointer(unsafe.SliceData(payload[:offsetsBytes])))
}

func idChunkOf(payload []byte) *idChunk {
	return (*idChunk)(unsafe.Pointer(unsafe.SliceData(payload[idHeadBytes : idHeadBytes+idChunkBytes])))
}

func sealIDs(n uint32, payload []byte) *sealedIDs {
	return &sealedIDs{seal: newSeal(payload[idHeadBytes : idHeadBytes+idChunkBytes]), chunk: idChunkOf(payload), place: n}
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

// names returns the files of tables and parts that a state counts.
func (s *PersistedState) names() (names []string) {
	if s == nil {
		return nil
	}
	if s.Table != nil {
		names = append(names, tableFile(s.Table.File))
	}
	for _, p := range s.Parts {
		names = append(names, partFile(p.File))
	}
	return names
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

// Link links the files of the last Sync into an empty folder, from where Options.ReadOnly opens them. No Sync
// and no Published may run meanwhile.
func (x *Index) Link(dir string) error {
	x.syncing.Lock()
	defer x.syncing.Unlock()
	s := x.persister
	names, err := s.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("series table: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, activityNew) {
			continue
		}
		if err := s.fs.Link(path.Join(s.dir, name), path.Join(dir, name)); err != nil {
			return fmt.Errorf("series table: %w", err)
		}
	}
	return nil
}

// Published is told that the manifest has a state for good, which Sync has given: files of tables and parts that
// neither it counts nor memory reads from are removed. What cannot be removed is tried again next time.
func (x *Index) Published(state State) {
	x.syncing.Lock()
	defer x.syncing.Unlock()
	s := x.persister
	x.punch(state.Forgotten)
	keep := slices.Concat(state.Persisted.names(), x.persistedNow(x.Len()).names(), state.Forgotten.names(), x.forgets.names())
	s.existing = slices.DeleteFunc(s.existing, func(name string) bool {
		if slices.Contains(keep, name) {
			return false
		}
		err := s.fs.Remove(path.Join(s.dir, name))
		return err == nil || errors.Is(err, fs.ErrNotExist)
	})
}

// persist writes what has come since the last time of the series below count, whose records end at byte
// keyBytes, and returns what counts of the files.
func (x *Index) persist(count uint32, keyBytes int64) *PersistedState {
	s := x.persister
	if !hostIsLittle() || x.keys.unread || x.keys.damages.Load() > 0 {
		return nil // the next start reads all keys, and finds which are damaged
	}
	for _, step := range []func() error{
		func() error { return x.persistOffsets(count) },
		func() error { return x.persistIDs(count) },
		func() error { return x.persistTable(count, keyBytes) },
		func() error { return x.persistParts(count) },
	} {
		if err := step(); err != nil {
			s.failures.Add(1)
		}
	}
	return x.persistedNow(count)
}

// persistedNow returns what the files have of the series below count.
func (x *Index) persistedNow(count uint32) *PersistedState {
	s := x.persister
	state := &PersistedState{Offsets: s.offsets.count.Load(), IDs: s.ids.count.Load(), Files: s.files}
	if t := x.table.persisted.Load(); t != nil {
		state.Table = &TableState{File: t.file, Count: t.count}
	}
	for _, p := range *x.parts.parts.Load() {
		if p.held.mapping != nil && p.hi <= count {
			state.Parts = append(state.Parts, PartState{File: p.file, From: p.lo, To: p.hi})
		}
	}
	return state
}

// persistTable writes another table if enough series have come.
func (x *Index) persistTable(count uint32, keyBytes int64) error {
	before, known := x.table.persisted.Load(), 0
	if before != nil {
		known = int(before.count)
	}
	least := max(x.persister.rule.table, known/x.persister.rule.share)
	gone := 0
	if before != nil {
		gone = x.keys.droppedBetween(0, before.count) - before.dropped
	}
	if fresh := int(count) - known; fresh < least && gone < least {
		return nil
	}
	dropped, blocks := x.keys.droppedBetween(0, count), x.keys.droppedBlocks()
	if err := x.persister.room(persistedTableBytes(count)); err != nil {
		return err
	}
	n, name := x.persister.newFile(tablePrefix)
	if err := x.keys.failpoints.Hit(PointPersistedFile); err != nil {
		return err
	}
	err := writePersistedTable(x.persister.fs, name, x.table.seed, count, func(stripe int) (list []uint64, err error) {
		err = vfs.Guard(func() error {
			list, err = before.entriesOf(stripe)
			return err
		})
		// Who has appended one of these records has locked the stripe before, and has it until the
		// entry is there.
		s := &x.table.stripes[stripe]
		s.mu.Lock()
		defer s.mu.Unlock()
		list = mergeEntries(list, s.entriesLocked(0, keyBytes))
		if err == nil {
			err = vfs.Guard(func() error {
				list = x.keptEntries(list, blocks)
				return nil
			})
		}
		return list, err
	})
	if errors.Is(err, errTableRotten) {
		err = errors.Join(err, vfs.Guard(func() error {
			x.dropTableSyncing(before)
			return nil
		}))
	}
	if err != nil {
		return err
	}
	if err := x.persister.fs.SyncDir(x.persister.dir); err != nil {
		return err
	}
	t, err := openPersistedTable(x.persister.fs, name, count, keyBytes)
	if err != nil {
		return err
	}
	t.file, t.dropped = n, dropped
	x.table.takePersisted(t, keyBytes)
	return nil
}

// persistParts writes the parts that are large and in memory.
func (x *Index) persistParts(count uint32) error {
	made := false
	for _, p := range *x.parts.parts.Load() {
		if p.held.mapping != nil || p.size() < x.persister.rule.part || p.hi > count {
			continue
		}
		if err := x.persister.room(p.fileBytes()); err != nil {
			return err
		}
		n, name := x.persister.newFile(partPrefix)
		if err := x.keys.failpoints.Hit(PointPersistedFile); err != nil {
			return err
		}
		if err := writePart(x.persister.fs, name, p); err != nil {
			return err
		}
		mapped, err := openPart(x.persister.fs, name, p.lo, p.hi)
		if err != nil {
			return err
		}
		mapped.file, made = n, true
		x.parts.replace(p, mapped)
	}
	if made {
		return x.persister.fs.SyncDir(x.persister.dir)
	}
	return nil
}

// closePersisted unmaps all. Nobody may read any more.
func (x *Index) closePersisted() error {
	errs := []error{x.persister.offsets.close(), x.persister.ids.close()}
	if t := x.table.persisted.Load(); t != nil {
		errs = append(errs, t.held.close())
	}
	if x.parts != nil {
		for _, p := range *x.parts.parts.Load() {
			errs = append(errs, p.held.close())
		}
	}
	return errors.Join(errs...)
}
