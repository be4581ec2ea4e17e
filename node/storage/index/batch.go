package index

import (
	"runtime"

	"github.com/tickmesh/tickmesh/api/series"
)

// batchGroup is how many keys go through the stages of ResolveBatch together: as
// many as a core has cache misses under way, and some more.
const batchGroup = 32

// ResolveBatch resolves many keys at once into refs, which is as long as keys.
// A key that is not known gets a Hint of LocalNone. Hint is as for Resolve. It
// returns the number found.
//
// In an order that is not that of creation it is several times faster than
// Resolve, since the memory of many series is on its way at the same time. In
// the order of creation it is as fast.
//
// It must be called inside vfs.Guard, takes no lock and does not allocate.
func (x *Index) ResolveBatch(hint uint32, keys []series.Key, refs []series.Ref) (found int) {
	refs = refs[:len(keys)]
	for i := 0; i < len(keys); {
		n := x.resolveRun(hint, keys[i:], refs[i:])
		i += n
		found += n
		n = min(len(keys)-i, batchGroup)
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

// resolveRun resolves keys as long as each is the successor of the one before, and
// returns their number. It counts the local ids itself instead of reading them from
// the records, so that the records of several keys are on their way at once.
func (x *Index) resolveRun(hint uint32, keys []series.Key, refs []series.Ref) int {
	next, count := hint+1, x.keys.count.Load()
	for i, key := range keys {
		if next >= count {
			return i
		}
		record := x.keys.record(next)
		if record == nil || !recordHasKey(record, key) || recordLocal(record) != next {
			return i
		}
		ref := series.Ref{Hint: next, Shard: recordShard(record), ID: recordID(record)}
		if x.keys.hidden.has(next) { // asked when all is read, as what is hidden may become a hole
			return i
		}
		refs[i] = ref
		next++
	}
	return len(keys)
}

// resolveGroup looks up to batchGroup keys up: in the persisted table, and those that are not there in
// the stripes.
func (x *Index) resolveGroup(keys []series.Key, refs []series.Ref) (found int) {
	var (
		hashes [batchGroup]uint64
		probes [batchGroup]probe
	)
	for i, key := range keys {
		hashes[i] = x.table.hash(key)
	}
	persisted := x.table.persisted.Load()
	if persisted == nil {
		for i := range keys {
			probes[i] = x.table.stripe(hashes[i]).probe(hashes[i])
		}
		found = x.keys.followGroup(&probes, keys, refs)
	} else {
		for i := range keys {
			probes[i] = persisted.probe(hashes[i])
		}
		found = x.keys.followGroup(&probes, keys, refs)
		if found < len(keys) {
			x.checkMissed(persisted, &hashes, refs)
			found += x.resolveNew(&hashes, keys, refs)
		}
		runtime.KeepAlive(persisted)
	}
	if found < len(keys) && x.table.persisted.Load() != persisted {
		for i, key := range keys {
			if refs[i].Hint != LocalNone {
				continue
			}
			if ref, ok := x.Resolve(LocalNone, key); ok {
				refs[i] = ref
				found++
			}
		}
	}
	return found
}

// checkMissed makes sure that the persisted table does not have those of a group that have no ref yet.
func (x *Index) checkMissed(persisted *persistedTable, hashes *[batchGroup]uint64, refs []series.Ref) {
	for i := range refs {
		if refs[i].Hint == LocalNone && !persisted.intact(hashes[i]) {
			x.dropTable(persisted)
			return
		}
	}
}

// resolveNew looks those keys of a group up in the stripes that have no ref yet.
func (x *Index) resolveNew(hashes *[batchGroup]uint64, keys []series.Key, refs []series.Ref) (found int) {
	var (
		probes  [batchGroup]probe
		without [batchGroup]series.Key
		places  [batchGroup]int
		got     [batchGroup]series.Ref
	)
	n := 0
	for i, key := range keys {
		if refs[i].Hint == LocalNone {
			probes[n] = x.table.stripe(hashes[i]).probe(hashes[i])
			without[n], places[n] = key, i
			n++
		}
	}
	found = x.keys.followGroup(&probes, without[:n], got[:n])
	for i, ref := range got[:n] {
		refs[places[i]] = ref
	}
	return found
}

// followGroup follows the probe of each key in stages. No stage waits for what the same stage
// loads, so that the misses of all keys overlap.
func (f *keyFile) followGroup(probes *[batchGroup]probe, keys []series.Key, refs []series.Ref) (found int) {
	var (
		slots   [batchGroup]uint64
		records [batchGroup][]byte
		places  [batchGroup]int64
		lengths [batchGroup]int
	)
	keys, refs = keys[:min(len(keys), batchGroup)], refs[:len(keys)]
	for i := range keys { // few instructions, so that the core looks far ahead
		slots[i] = probes[i].slot()
	}
	for i := range keys {
		if slots[i] == 0 {
			continue
		}
		if place, ok := probes[i].next(); ok {
			records[i], places[i] = f.recordAt(place), place
		}
	}
	for i := range keys {
		if records[i] != nil {
			lengths[i] = recordKeyBytes(records[i])
		}
	}
	for i, key := range keys {
		refs[i] = series.Ref{Hint: LocalNone}
		for record := records[i]; record != nil; {
			if lengths[i] == len(key) && recordHasKey(record, key) {
				if ref, ok := f.ref(record, places[i], key); ok && !f.hidden.has(ref.Hint) {
					refs[i] = ref
					found++
					break
				}
			}
			record = nil
			if place, ok := probes[i].next(); ok {
				places[i] = place
				if record = f.recordAt(place); record != nil {
					lengths[i] = recordKeyBytes(record)
				}
			}
		}
	}
	return found
}
