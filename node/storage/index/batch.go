package index

import (
	"encoding/binary"

	"github.com/tickmesh/tickmesh/api/series"
)

// batchGroup is how many keys go through the stages of ResolveBatch together: as
// many as a core has cache misses under way, and some more.
const batchGroup = 32

// ResolveBatch resolves many keys at once into refs, which is as long as keys.
// A key that is not known gets a Hint of LocalNone. Hint is as for Resolve. It
// gives the number found.
//
// In an order that is not that of creation it is several times faster than
// Resolve, since the memory of many series is on its way at the same time. In
// the order of creation it is as fast.
//
// It must be called inside vfs.Guard, takes no lock and does not allocate.
func (x *Index) ResolveBatch(hint uint32, keys []series.Key, refs []series.Ref) (found int) {
	refs = refs[:len(keys)]
	for i := 0; i < len(keys); {
		// As long as each series is the successor of the one before, guess.
		for i < len(keys) && x.resolveNext(hint, keys[i], &refs[i]) {
			hint = refs[i].Hint
			i++
			found++
		}
		n := min(len(keys)-i, batchGroup)
		if n == 0 {
			break
		}
		found += x.resolveGroup(keys[i:i+n], refs[i:i+n])
		i += n
		hint = LocalNone - 1 // no successor
		if last := refs[i-1].Hint; last != LocalNone && n > 1 && last-1 == refs[i-2].Hint {
			hint = last
		}
	}
	return found
}

// resolveNext tries the successor of hint.
func (x *Index) resolveNext(hint uint32, key series.Key, ref *series.Ref) bool {
	next := hint + 1
	if next >= x.keys.count.Load() {
		return false
	}
	record := x.keys.record(next)
	if record == nil || !recordHasKey(record, key) {
		return false
	}
	*ref = series.Ref{Hint: next, Shard: recordShard(record), ID: recordID(record)}
	return true
}

// resolveGroup looks keys up in stages. No stage waits for what the same stage
// loads, so that the misses of all keys overlap.
func (x *Index) resolveGroup(keys []series.Key, refs []series.Ref) (found int) {
	var (
		probes [batchGroup]probe
		slots  [batchGroup]uint64
		locals [batchGroup]uint32
		deltas [batchGroup]uint32
	)
	keys, refs = keys[:min(len(keys), batchGroup)], refs[:len(keys)]
	for i, key := range keys {
		hash := x.table.hash(key)
		probes[i] = x.table.stripe(hash).probe(hash)
	}
	for i := range keys { // few instructions, so that the core looks far ahead
		slots[i] = probes[i].slot()
	}
	for i := range keys {
		locals[i] = LocalNone
		if slots[i] == 0 {
			continue
		}
		if local, ok := probes[i].next(); ok {
			locals[i] = local
		}
	}
	var chunks []*offsets
	if p := x.keys.offsets.Load(); p != nil {
		chunks = *p
	}
	for i := range keys {
		if local := locals[i]; local != LocalNone {
			deltas[i] = chunks[local>>offsetChunkBits].delta[local%offsetChunk]
		}
	}
	blocks := *x.keys.blocks.Load()
	var records [batchGroup][]byte
	for i := range keys {
		if local := locals[i]; local != LocalNone {
			at := chunks[local>>offsetChunkBits].base + int64(deltas[i])
			records[i] = blocks[at>>blockBits][at&(blockBytes-1):]
			deltas[i] = uint32(binary.LittleEndian.Uint16(records[i][recordLengthAt:]))
		}
	}
	for i, key := range keys {
		for locals[i] != LocalNone && !recordHasKey(records[i], key) {
			locals[i] = LocalNone
			if local, ok := probes[i].next(); ok {
				locals[i], records[i] = local, x.keys.record(local)
			}
		}
		refs[i] = series.Ref{Hint: LocalNone}
		if locals[i] != LocalNone {
			refs[i] = series.Ref{Hint: locals[i], Shard: recordShard(records[i]), ID: recordID(records[i])}
			found++
		}
	}
	return found
}
