package index

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

// StageForgotten has the next Sync write that a shard has forgotten these ids and no others, for the manifest that
// replaces the shard. ReplaceForgotten follows when that is published, else UnstageForgotten.
func (x *Index) StageForgotten(shard uint16, ids []uint32) error {
	f := &x.forgets
	f.mu.Lock()
	f.staged = &stagedForgets{shard, ids}
	f.changed = f.changed || f.ofLocked(shard).Any() || len(ids) > 0
	back := f.comeBackLocked(shard, ids)
	f.mu.Unlock()
	return x.addLaterTwins(shard, back)
}

// addLaterTwins notes that the later records of the keys of some ids, which are not going to be forgotten any more, are
// twins. It goes on after errors.
func (x *Index) addLaterTwins(shard uint16, back []uint32) (problem error) {
	f := &x.forgets
	for _, id := range back {
		local, ok := x.Local(shard, series.ID(id))
		if !ok {
			continue
		}
		list, err := x.recordsLike(local)
		if err != nil && problem == nil {
			problem = err
		}
		f.mu.Lock()
		for i := range list {
			if uint32(list[i].ID) > id {
				f.twins[list[i].Hint] = struct{}{}
				f.changed = true
			}
		}
		f.mu.Unlock()
	}
	return problem
}

// comeBackLocked returns which ids of a shard are forgotten, and not among those that are to be.
func (f *forgets) comeBackLocked(shard uint16, ids []uint32) (back []uint32) {
	for _, id := range f.ofLocked(shard).set.list() {
		if _, stays := slices.BinarySearch(ids, id); !stays {
			back = append(back, id)
		}
	}
	return back
}

// UnstageForgotten takes StageForgotten back.
func (x *Index) UnstageForgotten() {
	x.forgets.mu.Lock()
	defer x.forgets.mu.Unlock()
	if s := x.forgets.staged; s != nil {
		x.forgets.staged = nil
		x.forgets.changed = x.forgets.changed || x.forgets.ofLocked(s.shard).Any() || len(s.ids) > 0
	}
}

// ReplaceForgotten makes some ids of a shard, which grow, all that are forgotten of it. The caller holds the shard's
// lock. It goes on after errors, which are those of Forget: what cannot be read counts as damaged.
func (x *Index) ReplaceForgotten(shard uint16, ids []uint32) (problem error) {
	f := &x.forgets
	f.mu.Lock()
	of := f.ofLocked(shard)
	if of.begins = false; f.staged != nil && f.staged.shard == shard { // that of another shard stays
		f.staged = nil
	}
	f.changed = f.changed || of.Any() || len(ids) > 0
	back := f.comeBackLocked(shard, ids)
	clear(of.recent)
	clear(of.later)
	for _, id := range back {
		of.set.clear(id)
	}
	for _, id := range ids {
		of.set.set(id)
	}
	f.mu.Unlock()
	// Files that replace a shard have been staged; one that begins at its first entry has not.
	problem = x.addLaterTwins(shard, back)
	for _, list := range [][]uint32{back, ids} {
		for _, id := range list {
			local, ok := x.Local(shard, series.ID(id))
			if !ok {
				continue
			}
			x.forgets.mu.Lock()
			if of.set.has(id) {
				f.hidden.set(local)
				f.final = append(f.final, local)
			} else {
				f.hidden.clear(local)
			}
			some := len(f.twins) > 0
			x.forgets.mu.Unlock()
			if some || !of.set.has(id) {
				if err := x.chooseRecord(local); err != nil && problem == nil {
					problem = err
				}
			}
		}
	}
	return problem
}
