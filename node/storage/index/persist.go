package index

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

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
