package index

import (
	"encoding/binary"
	"hash/crc32"
	"runtime"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// droppedBetween returns how many of the series from lo to hi (excluded) are dropped.
func (f *keyFile) droppedBetween(lo, hi uint32) (n int) {
	if f.dropped.ones.Load() == 0 {
		return 0
	}
	return f.dropped.between(lo, hi)
}

// droppedBlocks returns the blocks that have records which are dropped; nil: none has.
func (f *keyFile) droppedBlocks() *bitSet {
	if f.dropped.ones.Load() == 0 {
		return nil
	}
	blocks := new(bitSet)
	for _, local := range f.dropped.list() {
		if f.placed(local) {
			blocks.set(uint32(f.offset(local) >> blockBits))
		}
	}
	runtime.KeepAlive(f)
	return blocks
}

// freeOf returns which disk blocks of a block of the file no record has that is not dropped: none if any series that lies, or may
// lie, in the block is neither dropped nor found whole in it. Ready is false while the block may have series that the first so
// many chunks of offsets do not have, or the last one that they have: a start looks for others behind it.
func (f *keyFile) freeOf(n int, chunks uint32) (ready bool, free [blockBytes / vfs.BlockBytes]bool) {
	if n >= len(*f.blocks.Load())-1 || chunks == 0 {
		return false, free
	}
	whole := map[uint32]struct{}{}
	used := free
	mark := func(from, to int) {
		for at := from / vfs.BlockBytes; at*vfs.BlockBytes < to; at++ {
			used[at] = true
		}
	}
	if n == 0 {
		mark(0, keyHeaderBytes)
	}
	f.eachRecord(n, func(record []byte, at int) bool {
		if local := recordLocal(record); local < f.count.Load() && !f.dropped.has(local) {
			whole[local] = struct{}{}
			mark(at, at+len(record))
		}
		return true
	})
	first, end := f.localsOf(n)
	if end >= chunks*offsetChunk {
		return false, free
	}
	for local := first; local < end; local++ {
		if _, found := whole[local]; !found && !f.dropped.has(local) {
			return true, free
		}
		delete(whole, local)
	}
	if len(whole) > 0 {
		return true, free // of others that should not be here
	}
	for i := range free {
		free[i] = !used[i]
	}
	return true, free
}

// localsOf returns a run of local ids, up to end (excluded), that has those of all records of a block: those whose places are in it, and those
// beside them whose places are not known.
func (f *keyFile) localsOf(n int) (first, end uint32) {
	count := f.count.Load()
	// The first series that lies behind the block: those whose places are not known lie where the next known one does, or before.
	behind := func(block int) uint32 {
		lo, hi := uint32(0), count
		for lo < hi {
			middle := lo + (hi-lo)/2
			at := middle
			for at < hi && !f.placed(at) {
				at++
			}
			if at < hi && int(f.offset(at)>>blockBits) <= block {
				lo = at + 1
			} else {
				hi = middle
			}
		}
		return lo
	}
	first, end = behind(n-1), behind(n)
	for end < count && !f.placed(end) {
		end++
	}
	return first, end
}

// placed reports whether the place of a series' record is known.
func (f *keyFile) placed(local uint32) bool {
	return (*f.offsets.Load())[local>>offsetChunkBits].delta[local%offsetChunk] != offsetLost
}

// ref returns what a record says that was found by its key, and whether it is that of the key: who drops records may be giving it
// back to the disk meanwhile.
func (f *keyFile) ref(record []byte, place int64, key series.Key) (ref series.Ref, ok bool) {
	if f.dropped.ones.Load() == 0 {
		return recordRef(record), true
	}
	var head [recordKeyAt]byte
	copy(head[:], record)
	ref = recordRef(head[:])
	if recordKeyBytes(head[:]) == len(key) && binary.LittleEndian.Uint32(head[:]) == headSum(&head, key) {
		return ref, true
	}
	return ref, ref.Hint < f.count.Load() && !f.dropped.has(ref.Hint) && f.placed(ref.Hint) && f.offset(ref.Hint) == place
}

// headSum is the checksum of a record with such a head and key.
func headSum(head *[recordKeyAt]byte, key series.Key) uint32 {
	return crc32.Update(crc32.Checksum(head[recordLocalAt:], castagnoli), castagnoli, key)
}
