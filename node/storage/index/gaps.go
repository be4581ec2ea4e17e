package index

import (
	"errors"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// A gap is an id that was given and has no record: it is forgotten for good, its key is not known, and it is given to
// no other key. Most gaps had a record here, which was dropped: it keeps its local id, so that no other moves, and counts for
// nothing. What the file of keys has of such records is given back to the disk, block by block, once the manifest says that they are dropped.
// Other gaps never had a record here: see MakeGap.
//
// A series of which nothing is left may come again under its id all the same, in the files of a replica that has not forgotten it yet.
// Then the id gets another record, and that another local id.

// Bounds of what one Sync drops, and of what one Published gives back: some ten ms each.
const (
	dropMost  = 1 << 18 // records
	punchMost = 64      // blocks
)

// LetDropKeys allows that records of series which are forgotten for good are dropped. A folder of which some are
// dropped is of no use to programs that do not know it.
func (x *Index) LetDropKeys() { x.drops.Store(true) }

// DropsKeys reports whether records are dropped, or there are gaps already.
func (x *Index) DropsKeys() bool {
	if x.drops.Load() || x.keys.dropped.ones.Load() > 0 {
		return true
	}
	gaps := uint32(0)
	x.shards.each(func(_ uint16, s *shardIDs) { gaps |= s.gaps.Load() })
	return gaps > 0
}

// Gone reports whether an id of a shard is a gap.
func (x *Index) Gone(shard uint16, id uint32) bool {
	if !x.forgets.has(shard, series.ID(id)) {
		return false
	}
	_, known := x.Local(shard, series.ID(id))
	return !known
}

// Gaps reports whether a shard has gaps that never had a record here.
func (x *Index) Gaps(shard uint16) bool {
	ids := x.shards.get(shard)
	return ids != nil && ids.gaps.Load() > 0
}

// HoldKeys keeps records from being dropped until release is called, for who reads the keys of series that others may forget, or
// relies on those of series that are going to be forgotten no more.
func (x *Index) HoldKeys() (release func()) {
	f := &x.forgets
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holders++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.holders--
	}
}

// MakeGap makes the next id of a shard a gap; one that was given before stays what it is. The caller is going to have the shard forget it.
func (x *Index) MakeGap(shard uint16, id series.ID) error {
	ids := x.shards.make(shard)
	ids.mu.Lock()
	defer ids.mu.Unlock()
	x.keys.mu.Lock() // Sync reads both numbers together
	defer x.keys.mu.Unlock()
	next := ids.next.Load()
	switch {
	case uint32(id) < next:
		return nil
	case uint32(id) > next || id > series.IDMax:
		return ErrIDGap
	}
	ids.growLocked(uint32(id) + 1)
	ids.gaps.Add(1)
	ids.raiseNext(uint32(id) + 1)
	return nil
}

// dropKeys drops records of series that are forgotten for good. The caller holds syncing, and is about to write what is forgotten.
func (x *Index) dropKeys() {
	f := &x.forgets
	f.mu.Lock()
	queue, held := f.final, f.holders > 0
	if held || !x.drops.Load() || !hostIsLittle() || x.keys.unread || x.keys.damages.Load() > 0 || f.noHoles {
		f.mu.Unlock()
		return
	}
	f.final = nil
	f.mu.Unlock()
	slices.Sort(queue)
	queue = slices.Compact(queue)
	some := queue[:min(len(queue), dropMost)]
	refs := make([]series.Ref, 0, len(some))
	var left []uint32
	for _, local := range some {
		if ref, ok, err := x.refOf(local); err != nil {
			left = append(left, local) // it cannot be read now
		} else if ok {
			refs = append(refs, ref)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range refs {
		r := &refs[i]
		_, twin := f.twins[r.Hint]
		switch {
		case !f.finalLocked(r): // it came back
		case twin || f.holders > 0 || f.stagedLocked(r.Shard):
			left = append(left, r.Hint)
		default:
			f.dropLocked(r.Hint, r.Shard, x.keys.offset(r.Hint))
		}
	}
	f.final = append(append(f.final, left...), queue[len(some):]...)
	if f.unsaved {
		x.parts.notify()
	}
}

// refOf returns the ref of a series whose record is whole, and what its id means.
func (x *Index) refOf(local uint32) (ref series.Ref, ok bool, err error) {
	err = x.Guard(func() error {
		record, err := x.keys.intact(local)
		if err == nil {
			ref = recordRef(record)
		}
		return err
	})
	var fault *vfs.FaultError
	if errors.As(err, &fault) {
		return series.Ref{}, false, err
	}
	if err != nil {
		return series.Ref{}, false, nil //nolint:nilerr // it is lost already
	}
	meant, ok := x.Local(ref.Shard, ref.ID)
	return ref, ok && meant == local, nil
}

// punch gives back to the disk what blocks of the file of keys have of dropped records, of those that a manifest knows of. The caller
// holds syncing. A block of which anything is not as it should be stays whole.
func (x *Index) punch(published *ForgottenState) {
	f := &x.forgets
	f.mu.Lock()
	known := !f.unsaved && published != nil && f.files != nil && *published == *f.files && !f.noHoles
	blocks := make([]uint32, 0, len(f.holes))
	for n := range f.holes {
		blocks = append(blocks, n)
	}
	f.mu.Unlock()
	if !known || len(blocks) == 0 || x.keys.unread || x.keys.damages.Load() > 0 {
		return
	}
	// A snapshot has the same file, and series in it that were not forgotten when it was taken.
	if links, err := x.keys.file.Links(); err != nil || links != 1 {
		return
	}
	slices.Sort(blocks)
	x.keys.healAll() // places decide which series a block has
	done := 0
	for _, n := range blocks {
		if done == punchMost {
			break
		}
		given, ready, err := x.punchBlock(int(n))
		if errors.Is(err, errors.ErrUnsupported) {
			f.mu.Lock()
			f.noHoles, f.final = true, nil
			f.mu.Unlock()
		}
		if err != nil {
			x.persister.failures.Add(1)
			return
		}
		if !ready {
			continue
		}
		done++
		f.mu.Lock()
		delete(f.holes, n)
		f.given += given
		f.mu.Unlock()
	}
}

// punchBlock gives back what a block has of dropped records: disk blocks without a byte of others. Ready is false if it has
// to wait: its last series are not in the file of offsets yet.
func (x *Index) punchBlock(n int) (given int64, ready bool, err error) {
	var free [blockBytes / vfs.BlockBytes]bool
	err = x.Guard(func() error {
		ready, free = x.keys.freeOf(n, x.persister.offsets.count.Load())
		return nil
	})
	if err != nil || !ready {
		return 0, ready, err
	}
	for i := 0; i < len(free); i++ {
		if !free[i] {
			continue
		}
		end := i
		for end < len(free) && free[end] {
			end++
		}
		if err := x.keys.failpoints.Hit(PointKeysPunch); err != nil {
			return given, false, err
		}
		bytes := int64(end-i) * vfs.BlockBytes
		if err := x.keys.file.Punch(int64(n)<<blockBits+int64(i)*vfs.BlockBytes, bytes); err != nil {
			return given, false, err
		}
		given, i = given+bytes, end
	}
	return given, true, nil
}

// BeginAgain is told that a shard is about to apply its first entry: what replicas before have forgotten is not forgotten any more. If some of
// that has no record, the ids are given again from 0 on, and all records that there are of the shard are dropped: the
// replica that they were of is gone. The caller holds the shard's lock. Errors: as ReplaceForgotten.
func (x *Index) BeginAgain(shard uint16) error {
	f := &x.forgets
	ids := x.shards.make(shard)
	f.mu.Lock()
	gaps := f.ofLocked(shard).dropped > 0 || ids.gaps.Load() > 0
	if !gaps {
		f.ofLocked(shard).begins = true // keeps others from making some
	}
	f.mu.Unlock()
	if !gaps {
		return x.ReplaceForgotten(shard, nil)
	}
	x.syncing.Lock() // no Sync sees a part of it
	defer x.syncing.Unlock()
	var locals []uint32
	for id := range ids.next.Load() {
		if local, ok := x.Local(shard, series.ID(id)); ok {
			locals = append(locals, local)
		}
	}
	ids.mu.Lock()
	defer ids.mu.Unlock()
	x.keys.mu.Lock()
	ids.next.Store(0)
	ids.gaps.Store(0)
	x.keys.mu.Unlock()
	f.mu.Lock()
	of := f.ofLocked(shard)
	for _, local := range locals {
		f.hidden.set(local)
		delete(f.twins, local)
		f.dropLocked(local, shard, x.keys.offset(local))
	}
	of.dropped = 0
	for _, id := range of.set.list() {
		of.set.clear(id)
	}
	clear(of.recent)
	clear(of.later)
	of.awaited.Store(0)
	f.changed = true
	f.mu.Unlock()
	x.activity.empty(locals)
	return nil
}

// keptEntries takes those entries out of a list that lead to records which are dropped.
func (x *Index) keptEntries(list []uint64, blocks *bitSet) []uint64 {
	if blocks == nil {
		return list
	}
	return slices.DeleteFunc(list, func(slot uint64) bool {
		place := int64(slot & slotPlaceMask)
		if !blocks.has(uint32(place >> blockBits)) {
			return false
		}
		record := x.keys.recordAt(place)
		if record == nil {
			return false
		}
		if zeros(record[:recordKeyAt]) == recordKeyAt {
			return true // given back
		}
		local := recordLocal(record)
		return local < x.keys.count.Load() && x.keys.dropped.has(local) && x.keys.placed(local) && x.keys.offset(local) == place
	})
}
