package index

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"unsafe"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// offsets holds where the records of a run of local ids are in the file, and their
// shards, so that a selection of some shards reads no records.
type offsets struct {
	base   int64
	delta  [offsetChunk]uint32 // 4096 records of at most 64 KiB are less than 4 GiB
	shards [offsetChunk]uint16
}

const (
	offsetChunkBits = 12
	offsetChunk     = 1 << offsetChunkBits
	offsetLost      = 1<<32 - 1

	offsetsSealBytes = 24 + 48 + (int64(offsetsBytes)+sealBlock-1)/sealBlock*4 // of memory

	offsetsBytes    = int(unsafe.Sizeof(offsets{}))
	offsetsDeltaAt  = int(unsafe.Offsetof(offsets{}.delta))
	offsetsShardsAt = int(unsafe.Offsetof(offsets{}.shards))
)

// offsetsSeal finds that mapped offsets are not what they were.
type offsetsSeal struct {
	*seal
	lost []uint16 // which records are, as a record that counts as lost may be whole
}

func newOffsetsSeal(payload []byte) *offsetsSeal {
	s := &offsetsSeal{seal: newSeal(payload[:offsetsBytes])}
	for i, delta := range offsetsOf(payload).delta {
		if delta == offsetLost {
			s.lost = append(s.lost, uint16(i))
		}
	}
	return s
}

func offsetsOf(payload []byte) *offsets {
	return (*offsets)(unsafe.Pointer(unsafe.SliceData(payload[:offsetsBytes])))
}

// bytesOf returns offsets as they are in the file.
func bytesOf(c *offsets) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(c)), offsetsBytes) }

// bytesIntact reports whether some bytes are what they were and can be read.
func (s *seal) bytesIntact(from, to int) (intact bool) {
	err := vfs.Guard(func() error {
		intact = s.intact(from, to)
		return nil
	})
	return err == nil && intact
}

// offsetsSealed returns the seal of the offsets of a series; nil: they are in memory.
func (f *keyFile) offsetsSealed(local uint32) *offsetsSeal {
	seals := f.seals.Load()
	if n := int(local >> offsetChunkBits); seals != nil && n < len(*seals) {
		return (*seals)[n]
	}
	return nil
}

// healPlace makes sure that the place of a series' record is what it was.
func (f *keyFile) healPlace(local uint32) {
	if s := f.offsetsSealed(local); s != nil {
		at := offsetsDeltaAt + 4*int(local%offsetChunk)
		if !s.bytesIntact(0, offsetsDeltaAt) || !s.bytesIntact(at, at+4) {
			f.heal(int(local>>offsetChunkBits), s)
		}
	}
}

// healAll makes sure that all places and shards are what they were, and reports whether any was not. Those whose
// keys cannot be read stay as they are.
func (f *keyFile) healAll() (rotten bool) {
	seals := f.seals.Load()
	if seals == nil {
		return false
	}
	for n, s := range *seals {
		if s != nil && !s.bytesIntact(0, offsetsBytes) {
			err := vfs.Guard(func() error {
				f.heal(n, s)
				return nil
			})
			rotten = rotten || err == nil
		}
	}
	return rotten
}

// heal puts offsets in memory, found again in the keys, in the place of a mapped chunk that is not what it was.
// The next Sync writes the chunk again. It must be called inside vfs.Guard: a key that cannot be read now may be read
// later, and does not count as lost.
func (f *keyFile) heal(n int, rotten *offsetsSeal) {
	found, missing := f.findOffsets(n, rotten.lost)
	f.mu.Lock()
	if f.offsetsSealed(uint32(n)<<offsetChunkBits) != rotten {
		f.mu.Unlock()
		return // another reader was faster
	}
	chunks, seals := slices.Clone(*f.offsets.Load()), slices.Clone(*f.seals.Load())
	chunks[n], seals[n] = found, nil
	f.offsets.Store(&chunks)
	f.seals.Store(&seals) // after the chunk: who finds no seal reads memory
	f.mu.healed = append(f.mu.healed, uint32(n))
	f.mu.Unlock()
	f.damages.Add(int64(missing)) // the next start reads all keys
	f.damaged(&CorruptError{File: path.Join(path.Dir(f.file.Name()), offsetsFileName), Offset: chunkPlace(n, offsetsBytes), What: fmt.Sprintf(
		"chunk %d reads otherwise than before: it is built again from the keys, %d of which are missing", n, missing)})
}

// findOffsets finds the records of a chunk of local ids. Those that count as lost stay so.
func (f *keyFile) findOffsets(n int, lost []uint16) (found *offsets, missing int) {
	found = new(offsets)
	for i := range found.delta {
		found.delta[i] = offsetLost
	}
	first, end := uint32(n)<<offsetChunkBits, (uint64(n)+1)<<offsetChunkBits
	missing = offsetChunk - len(lost) - f.dropped.between(first, uint32(min(end, countMax)))
	next, based, over := first, false, false
	for b := f.blockBefore(first); !over && b < len(*f.blocks.Load()); b++ {
		f.eachRecord(b, func(record []byte, at int) bool {
			local := recordLocal(record)
			over = uint64(local) >= end
			if over || local < next {
				return !over
			}
			next = local + 1
			place := int64(b)<<blockBits + int64(at)
			if !based {
				found.base, based = place&^(blockBytes-1), true
			}
			if i := local % offsetChunk; !slices.Contains(lost, uint16(i)) {
				found.delta[i], found.shards[i] = uint32(place-found.base), recordShard(record)
				if !f.dropped.has(local) {
					missing--
				}
			}
			return uint64(next) < end
		})
	}
	return found, missing
}

// blockBefore returns the last block that begins with the record of a series or of one before it.
func (f *keyFile) blockBefore(local uint32) int {
	unsure := false
	after := sort.Search(len(*f.blocks.Load()), func(b int) bool {
		first, any := uint32(0), false
		f.eachRecord(b, func(record []byte, _ int) bool {
			first, any = recordLocal(record), true
			return false
		})
		unsure = unsure || !any
		return any && first > local
	})
	if unsure {
		return 0
	}
	return max(after-1, 0)
}

// eachRecord visits the whole records of a block in order, with their places in it, until visit returns false.
// It passes over what is damaged.
func (f *keyFile) eachRecord(n int, visit func(record []byte, at int) bool) {
	if blocks := *f.blocks.Load(); n == len(blocks)-1 {
		f.mu.Lock() // the tail is being filled
		defer f.mu.Unlock()
	}
	b, at := (*f.blocks.Load())[n][:], 0
	if n == 0 {
		at = keyHeaderBytes
	}
	for at < len(b) {
		if record, ok := cutRecord(b[at:]); ok && validRecord(record, recordLocal(record)) {
			if !visit(record, at) {
				return
			}
			at += len(record)
			continue
		}
		at += max(zeros(b[at:])-(recordIDAt-1), 1)
	}
}
