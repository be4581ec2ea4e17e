package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"path"
	"slices"
	"strconv"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// ForgottenState names the file of what is forgotten, and another one with the same bytes: nothing else has what they tell.
type ForgottenState struct{ File, Copy uint64 }

const (
	forgottenPrefix = "forgotten-"
	forgottenMagic  = "TMFORG\r\n"
	// forgottenVersionDropped is that of a file which tells of records that are dropped, too.
	forgottenVersionDropped = 2
)

func forgottenFile(n uint64) string { return forgottenPrefix + strconv.FormatUint(n, 10) }

func (s *ForgottenState) names() []string {
	if s == nil {
		return nil
	}
	return []string{forgottenFile(s.File), forgottenFile(s.Copy)}
}

// names returns the files that have what is forgotten, if there are any.
func (f *forgets) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files.names()
}

// persistForgotten writes what is forgotten if it has changed, and returns what names it; nil: nothing ever was.
// The caller holds Index.syncing.
func (x *Index) persistForgotten() (*ForgottenState, error) {
	f := &x.forgets
	f.mu.Lock()
	changed := f.changed
	var body []byte
	version := uint32(wholeVersion)
	if changed {
		body = f.encodeLocked()
		if f.dropped.ones.Load() > 0 {
			version = forgottenVersionDropped
			body = f.appendDroppedLocked(body)
		}
		f.changed = false
	}
	f.mu.Unlock()
	if changed {
		files, err := x.writeForgotten(version, body)
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil {
			f.changed = true
			return nil, fmt.Errorf("series table: what is forgotten: %w", err)
		}
		f.files, f.unsaved = files, false // only who syncs drops records
	}
	return f.files, nil
}

// writeForgotten makes two files with a body.
func (x *Index) writeForgotten(version uint32, body []byte) (*ForgottenState, error) {
	files, p := new(ForgottenState), x.persister
	for _, n := range []*uint64{&files.File, &files.Copy} {
		var name string
		*n, name = p.newFile(forgottenPrefix)
		if err := writeWholeVersion(p.fs, name, forgottenMagic, version, func(w *wholeWriter) { w.bytes(body) }); err != nil {
			return nil, err
		}
	}
	return files, p.fs.SyncDir(p.dir)
}

// encodeLocked returns the body of the file:
//
//	u32 shards, then for each: u32 shard · u32 n · n × u64 bits of ids · u32 n · n × (u32 id · u64 entry)
//	u32 n · n × u32 twins
func (f *forgets) encodeLocked() []byte {
	numbers := make([]uint16, 0, len(f.shards))
	for shard, of := range f.shards {
		if of.Any() || f.staged != nil && f.staged.shard == shard {
			numbers = append(numbers, shard)
		}
	}
	slices.Sort(numbers)
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(numbers)))
	for _, shard := range numbers {
		of := f.ofLocked(shard).withLater()
		if s := f.staged; s != nil && s.shard == shard {
			of = &Forgotten{}
			for _, id := range s.ids {
				of.set.set(id)
			}
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(shard))
		b = of.set.appendTo(b)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(of.recent)))
		for id, entry := range of.recent {
			b = binary.LittleEndian.AppendUint32(b, id)
			b = binary.LittleEndian.AppendUint64(b, entry)
		}
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.twins)))
	for local := range f.twins {
		b = binary.LittleEndian.AppendUint32(b, local)
	}
	return b
}

// appendDroppedLocked appends what a file of version 2 has behind that:
//
//	u32 n · n × a chunk of 4,096 local ids: u8 0 none, 1 all, 2 those of the 64 × u64 that follow
//	u32 n · n × u32 blocks of which something may be given back
func (f *forgets) appendDroppedLocked(b []byte) []byte {
	var chunks []*bitChunk
	if of := f.dropped.chunks.Load(); of != nil {
		chunks = *of
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(chunks)))
	for _, c := range chunks {
		ones := 0
		for i := 0; c != nil && i < len(c); i++ {
			ones += bits.OnesCount64(c[i].Load())
		}
		switch ones {
		case 0:
			b = append(b, 0)
		case bitChunkBits:
			b = append(b, 1)
		default:
			b = append(b, 2)
			for i := range c {
				b = binary.LittleEndian.AppendUint64(b, c[i].Load())
			}
		}
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.holes)))
	for _, n := range slices.Sorted(maps.Keys(f.holes)) {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

// withLater returns what is forgotten with what is going to be, as the file has it.
func (f *Forgotten) withLater() *Forgotten {
	if len(f.later) == 0 {
		return f
	}
	all := &Forgotten{recent: maps.Clone(f.recent)}
	for _, id := range f.set.list() {
		all.set.set(id)
	}
	for id, entry := range f.later {
		all.set.set(id)
		all.recent[id] = entry
	}
	return all
}

// appendTo appends the number of words up to the last one that is not 0, and these.
func (s *bitSet) appendTo(b []byte) []byte {
	end := 0
	for n, c := range s.each() {
		for i := range c {
			if c[i].Load() != 0 {
				end = n*len(c) + i + 1
			}
		}
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(end))
	for i := range end {
		b = binary.LittleEndian.AppendUint64(b, s.word(uint32(i*64)))
	}
	return b
}

// openForgotten reads the files that a state names. They decide what ids mean, so a folder without them is of no use; one of
// them is enough.
func (x *Index) openForgotten(o *Options) error {
	f := &x.forgets
	f.shards, f.twins, f.files = map[uint16]*Forgotten{}, map[uint32]struct{}{}, o.State.Forgotten
	f.holes = map[uint32]struct{}{}
	var problems error
	known := false
	for _, name := range f.files.names() {
		name = path.Join(o.Dir, name)
		version, body, err := readForgotten(o.FS, name)
		if err == nil && !known {
			f.shards, f.twins = map[uint16]*Forgotten{}, map[uint32]struct{}{}
			f.dropped.chunks.Store(nil)
			f.dropped.ones.Store(0)
			f.holes = map[uint32]struct{}{}
			err = f.decode(name, version, body, &o.State, o.Applied)
			known = err == nil
		}
		problems = errors.Join(problems, err)
	}
	if problems == nil {
		return nil
	}
	if !known {
		return fmt.Errorf("series table: it is not known which series are forgotten: %w", problems)
	}
	o.Corrupt(fmt.Errorf("series table: one of two files that tell which series are forgotten: %w", problems))
	f.changed = true // the next Sync makes two new ones
	return nil
}

// readForgotten returns the body of a file.
func readForgotten(fs vfs.FS, name string) (version uint32, body []byte, err error) {
	b, err := vfs.ReadFile(fs, name)
	if err == nil && len(b) < wholeHeader+wholeSumBytes {
		err = &CorruptError{File: name, What: fmt.Sprintf("it has %d bytes", len(b))}
	}
	if err == nil {
		version, err = checkWholeVersion(name, forgottenMagic, forgottenVersionDropped, b)
	}
	if err != nil {
		return 0, nil, err
	}
	return version, b[wholeHeader : len(b)-wholeSumBytes], nil
}

// decode reads the body of a file. Ids whose entry comes after applied are not forgotten yet.
func (f *forgets) decode(name string, version uint32, body []byte, state *State, applied []uint64) error {
	r := &forgottenReader{rest: body}
	for range r.uint32() {
		shard := r.uint32()
		if r.failed = r.failed || shard > math.MaxUint16; r.failed {
			break
		}
		of, next := f.ofLocked(uint16(shard)), uint32(0)
		if int(shard) < len(state.Next) {
			next = state.Next[shard]
		}
		r.bits(&of.set, next)
		for range r.uint32() {
			id, entry := r.uint32(), r.uint64()
			if r.failed {
				break
			}
			if (int(shard) >= len(applied) || entry > applied[shard]) && of.set.has(id) {
				of.set.clear(id)
				of.later[id] = entry
				if first := of.awaited.Load(); first == 0 || entry < first {
					of.awaited.Store(entry)
				}
			}
		}
	}
	for range r.uint32() {
		local := r.uint32()
		if r.failed {
			break
		}
		if local < state.Count {
			f.twins[local] = struct{}{}
		}
	}
	if version == forgottenVersionDropped {
		r.dropped(&f.dropped, f.holes, state)
	}
	if r.failed || len(r.rest) > 0 {
		return &CorruptError{File: name, Offset: int64(wholeHeader + len(body) - len(r.rest)), What: "it does not end where it should, or has shards that are not there"}
	}
	return nil
}

// forgottenReader reads numbers; failed once there is none.
type forgottenReader struct {
	rest   []byte
	failed bool
}

func (r *forgottenReader) uint32() uint32 {
	if r.failed || len(r.rest) < 4 {
		r.failed = true
		return 0
	}
	v := binary.LittleEndian.Uint32(r.rest)
	r.rest = r.rest[4:]
	return v
}

func (r *forgottenReader) uint64() uint64 {
	if r.failed || len(r.rest) < 8 {
		r.failed = true
		return 0
	}
	v := binary.LittleEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	return v
}

// dropped reads which records are dropped, and which blocks are not given back.
func (r *forgottenReader) dropped(s *bitSet, holes map[uint32]struct{}, state *State) {
	for n := range r.uint32() {
		if r.failed = r.failed || len(r.rest) == 0 || n > countMax/bitChunkBits; r.failed {
			return
		}
		kind := r.rest[0]
		r.rest = r.rest[1:]
		if kind > 2 {
			r.failed = true
			return
		}
		for i := uint32(0); kind != 0 && i < bitChunkBits/64; i++ {
			w := ^uint64(0)
			if kind == 2 {
				w = r.uint64()
			}
			for ; w != 0; w &= w - 1 {
				local := n*bitChunkBits + i*64 + uint32(bits.TrailingZeros64(w))
				if local < state.Count {
					s.set(local)
				}
			}
		}
	}
	for range r.uint32() {
		n := r.uint32()
		if r.failed {
			return
		}
		holes[n] = struct{}{}
	}
}

// bits reads those numbers of a set that are below end.
func (r *forgottenReader) bits(s *bitSet, end uint32) {
	words := r.uint32()
	if r.failed = r.failed || uint64(words)*8 > uint64(len(r.rest)); r.failed {
		return
	}
	for i := range words {
		for w := r.uint64(); w != 0; w &= w - 1 {
			n := uint64(i)*64 + uint64(bits.TrailingZeros64(w))
			if n < uint64(end) { // the series of others, and their entries, are still to come
				s.set(uint32(n))
			}
		}
	}
}

// hideForgotten hides what is forgotten and twins, when records and ids are there.
func (x *Index) hideForgotten(o *Options) {
	f := &x.forgets
	for _, local := range f.dropped.list() {
		f.hidden.set(local)
	}
	gaps := f.dropped.ones.Load() > 0
	for shard, of := range f.shards {
		for _, id := range of.set.list() {
			if local, ok := x.Local(shard, series.ID(id)); ok {
				f.hidden.set(local)
				f.final = append(f.final, local) // what is not is in later
			} else if gaps {
				of.dropped++ // or lost, which is as good
			}
		}
	}
	if gaps {
		x.drops.Store(true)
	}
	for local := range f.twins {
		if err := x.chooseRecord(local); err != nil { // it is lost, and was reported
			o.Corrupt(fmt.Errorf("series %d, whose key came again: %w", local, err))
		}
	}
}
