package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// FailPublish is hit before a manifest is published whose change has no failpoint of its own.
const FailPublish = "checkpoint/before-publish"

// Options configure a Store.
type Options struct {
	FS       vfs.FS
	Dir      string // of the manifest
	Segments string // folder of segments, below Dir
	Shards   int    // of a new manifest
	ShardKey series.ShardKey
	Foreign  []string // folders of a data folder, which are empty where there is no manifest
	// MakeDurable syncs what a manifest refers to, and notes in it up to where that is durable.
	MakeDurable func(*Manifest) error
	// Published is told that the disk has a manifest and no earlier one.
	Published func(*Manifest)
	Corrupt   func(error) // called for segments that cannot be opened
	Logger    *slog.Logger
	Hit       func(failpoint string) error // a failpoint is met
}

// Store owns the manifest, the segments that it names, and the versions of them that readers
// hold. All methods may be called from many goroutines.
//
// Lock order: that of Edit, locks of callers, that of Change.
type Store struct {
	o       Options
	applied atomic.Pointer[[]uint64] // Applied of the manifest
	versions
	damages damages

	editing sync.Mutex // held by an Edit
	edit    Edit       // what it sees

	changing      sync.Mutex // serialises changes of the version
	tombstoneLast uint64     // number of the latest tombstone; guarded by changing
	awaited       awaited    // guarded by changing
}

// Edit is the right to replace the manifest, which one holds at a time.
type Edit struct {
	store   *Store
	present *Manifest // as published last; replaced, never changed
	inDoubt bool      // the file may be a later one
}

// Open reads the manifest of a data folder, or makes one. OpenSegments follows.
func Open(o Options) (*Store, error) {
	s := &Store{o: o}
	s.edit.store = s
	m, err := Read(o.FS, o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		if m, err = New(o.Shards, o.ShardKey); err != nil {
			return nil, err
		}
		if err = s.refuseForeignFiles(); err == nil {
			err = Write(o.FS, o.Dir, m)
		}
	}
	if err != nil {
		return nil, err
	}
	s.tombstoneLast = m.tombstoneLast()
	s.edit.set(m)
	return s, nil
}

// refuseForeignFiles guards against a folder whose manifest was lost: to start
// it as new would throw its data away. The manifest is the first file that is
// made, so nothing else can be there without one.
func (s *Store) refuseForeignFiles() error {
	entries, err := s.o.FS.List(s.o.Dir)
	if err != nil {
		return fmt.Errorf("list the data folder: %w", err)
	}
	for _, entry := range entries {
		names, err := s.o.FS.List(path.Join(s.o.Dir, entry))
		if err == nil && len(names) > 0 && slices.Contains(s.o.Foreign, entry) {
			return fmt.Errorf("%w: %s has %s/%s but no manifest; restore the file %s or choose another folder",
				ErrUnusable, s.o.Dir, entry, names[0], Name)
		}
	}
	return nil
}

// OpenSegments opens the segments that the manifest names and publishes the first version, in which
// the page log has what is in generations from GenerationOldest on.
func (s *Store) OpenSegments(generationOldest uint32) error {
	m := s.edit.present
	v := &Version{Visibility: Visibility{
		Tombstones: m.Tombstones, Purged: m.Purged, LowWater: m.LowWater, GenerationOldest: generationOldest, Suppressed: m.Suppressed,
	}}
	var err error
	if v.Segments, v.Missing, err = s.openSegments(m.Segments); err != nil {
		return err
	}
	// The manifest lists them as they were published, a merged one last.
	v.Segments = orderSegments(v.Segments)
	s.publish(v, dropped{})
	return nil
}

// Close waits until what readers have left is given up, and releases the segments.
func (s *Store) Close() error {
	s.Sweeper.Wait()
	if s.current == nil {
		return nil
	}
	var problems []error
	for _, r := range s.current.Segments {
		problems = append(problems, r.Release())
	}
	return errors.Join(problems...)
}

// Edit returns the right to replace the manifest, when nobody else has it. End releases it.
func (s *Store) Edit() *Edit {
	s.editing.Lock()
	return &s.edit
}

// Present returns the manifest as it was published last. It must not be changed.
func (s *Store) Present() *Manifest {
	defer s.Edit().End()
	return s.edit.present
}

// Durable returns for each shard the entry that the manifest stands for. It does not wait for
// anything.
func (s *Store) Durable() []uint64 { return slices.Clone(*s.applied.Load()) }

// End releases the right.
func (x *Edit) End() { x.store.editing.Unlock() }

// Present returns the manifest as it was published last. It must not be changed.
func (x *Edit) Present() *Manifest { return x.present }

func (x *Edit) set(m *Manifest) {
	x.present = m
	x.store.applied.Store(&m.Applied) // replaced, never changed
}

// Publish syncs what the manifest refers to, applies the change and replaces the file. Errors:
// ErrInDoubt when the disk may have a manifest that names what the change would have added.
func (x *Edit) Publish(failpoint string, change func(*Manifest)) error {
	err := x.replace(failpoint, change)
	switch {
	case err == nil:
		x.inDoubt = false
	case errors.Is(err, ErrInDoubt):
		x.inDoubt = true
	}
	return err
}

// Resolve ends the doubt about the file. Until then nothing may be made or removed that could have
// the name of a segment that the file may name.
func (x *Edit) Resolve() error {
	if !x.inDoubt {
		return nil
	}
	return x.Publish(FailPublish, func(*Manifest) {})
}

func (x *Edit) replace(failpoint string, change func(*Manifest)) error {
	s := x.store
	// Before the pages: a tombstone that is named must not stand behind the end
	// of the page log, or it would hide what is written there later.
	v := s.Acquire()
	stones, oldest := v.Tombstones, v.GenerationOldest
	s.Release(v)
	m := *x.present
	if err := s.o.MakeDurable(&m); err != nil {
		return err
	}
	// A generation that a scan still holds is on disk, but segments have its pages.
	m.DropGenerations(func(number uint32) bool { return number < oldest })
	m.Tombstones = stones
	change(&m)
	if err := s.o.Hit(failpoint); err != nil {
		return err
	}
	if err := Write(s.o.FS, s.o.Dir, &m); err != nil {
		return err
	}
	x.set(&m)
	s.o.Published(&m)
	return nil
}

// Show makes the present manifest visible to readers: it publishes a changed version. The actions of
// what is dropped run as soon as no reader can see what came before, in this call or by the
// sweeper, without any lock but those of this call's caller.
func (x *Edit) Show(change func(*Version), d dropped) {
	x.store.change(change, d)
}

// prune leaves out tombstones that hide nothing any more. It is called within Show.
func (x *Edit) prune(v *Version) {
	v.Purged = x.present.Purged
	v.Tombstones = v.Tombstones.needed(x.present.Segments, x.present.Purged, v.GenerationOldest, x.store.awaited)
}

// Flushed shows the segments that a generation of the page log has become. Drop is called when no
// reader needs the generation any more.
func (x *Edit) Flushed(generation uint32, readers []*segment.Reader, drop func()) {
	x.Show(func(v *Version) {
		v.add(readers)
		v.GenerationOldest = generation + 1
		x.prune(v)
	}, dropped{pages: []func(){drop}})
}

// Replaced shows segments in place of others, which are removed when no reader needs them any more.
func (x *Edit) Replaced(old, readers []*segment.Reader) {
	x.Show(func(v *Version) {
		v.Segments = slices.DeleteFunc(slices.Clone(v.Segments), func(r *segment.Reader) bool { return slices.Contains(old, r) })
		v.add(readers)
		x.prune(v)
		v.Suppressed, v.Missing = x.present.Suppressed, stillMissing(v.Missing, x.present.Segments)
	}, dropped{segments: []func(){func() {
		if err := Discard(old); err != nil {
			x.store.o.Logger.Error("replaced segments stay on disk until the next start", "error", err)
		}
	}}})
}

// Repaired shows the segments that a repair has brought, and no part that they suppress.
func (x *Edit) Repaired(readers []*segment.Reader) {
	x.Show(func(v *Version) {
		v.add(readers)
		v.Suppressed, v.Missing = x.present.Suppressed, stillMissing(v.Missing, x.present.Segments)
	}, dropped{})
}

// ReplicaReplaced shows another replica of a shard, which begins at its mark in the manifest.
func (x *Edit) ReplicaReplaced(shard uint16, readers []*segment.Reader, stones Tombstones) {
	x.Show(func(v *Version) {
		v.LowWater = x.present.LowWater
		v.add(readers)
		v.Tombstones = v.Tombstones.Replaced(shard, stones)
	}, dropped{})
}

// Sequences returns the first of n free sequences that come after all segments that there are, and
// before those of a generation that is being written.
func (x *Edit) Sequences(generation uint32, n int) (first uint64, err error) {
	first = SequenceOf(generation-1) + 1
	for i := range x.present.Segments {
		first = max(first, x.present.Segments[i].SequenceHigh+1)
	}
	if first+uint64(n) >= SequenceOf(generation) {
		return 0, fmt.Errorf("%w: no room for %d segments before the next flush", series.ErrOverloaded, n)
	}
	return first, nil
}

// change publishes a changed copy of the current version.
func (s *Store) change(change func(*Version), d dropped) {
	s.changing.Lock()
	current := s.Current()
	next := &Version{Segments: current.Segments, Visibility: current.Visibility}
	change(next)
	actions := s.publish(next, d)
	s.changing.Unlock()
	for _, act := range actions {
		act()
	}
}

// AddTombstone makes a tombstone take effect: its number, and its place, which is the present end
// of the page log. Its series have been sealed, and their shard is locked. The place is read and
// published in one step, so that a flush either knows the tombstone or has ended the generation
// before it: see CurrentWithTombstones.
func (s *Store) AddTombstone(t Tombstone, end func() (generation, offset uint32)) {
	s.change(func(v *Version) {
		t.Generation, t.Offset = end()
		t.Sequence = SequenceOf(t.Generation)
		s.tombstoneLast++
		t.Number = s.tombstoneLast
		v.Tombstones = v.Tombstones.with(t)
	}, dropped{})
}

// CurrentWithTombstones returns the current version, of which the tombstones and marks are to be used alone. A
// tombstone that stands in a generation which has ended before the call is in it.
func (s *Store) CurrentWithTombstones() *Version {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.Current()
}

// NumberTombstones sets the numbers of tombstones, which are those of this node.
func (s *Store) NumberTombstones(stones Tombstones) {
	s.changing.Lock()
	defer s.changing.Unlock()
	for i := range stones {
		s.tombstoneLast++
		stones[i].Number = s.tombstoneLast
	}
}

// TombstoneLast returns the number of the latest tombstone.
func (s *Store) TombstoneLast() uint64 {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.tombstoneLast
}

// Await keeps all tombstones of a shard from now on, since samples that they hide may come, until
// the result is called.
func (s *Store) Await(shard uint16) (end func()) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.awaited = awaited{comes: true, shard: shard, after: s.tombstoneLast}
	return func() {
		s.changing.Lock()
		defer s.changing.Unlock()
		s.awaited = awaited{}
	}
}
