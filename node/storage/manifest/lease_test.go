package manifest

import (
	"slices"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// shelf is a Store with a page log.
type shelf struct {
	*Store
	pages   *pagelog.Log
	dropped []uint32
}

func newShelf(t *testing.T) *shelf {
	fs := vfs.NewMemFS()
	if err := fs.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	pages, err := pagelog.Open(pagelog.Options{FS: fs, Dir: "data/pages"}, pagelog.State{}, func(pagelog.Ref, uint16, uint32) {})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{FS: fs, Dir: "data", Segments: "segments", Shards: 2, MakeDurable: func(*Manifest) error { return nil }, Published: func(*Manifest) {}, Hit: func(string) error { return nil }})
	if err == nil {
		err = s.OpenSegments(pages.Generations()[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := pages.Close(); err != nil {
			t.Error(err)
		}
	})
	return &shelf{Store: s, pages: pages}
}

// flush ends a generation, as if it had become segments, and drops it with a lock held that others have
// while they change the version.
func (s *shelf) flush(t *testing.T, shard *sync.Mutex) {
	t.Helper()
	ended := s.pages.Current()
	if _, err := s.pages.Roll(); err != nil {
		t.Fatal(err)
	}
	x := s.Edit()
	defer x.End()
	x.Flushed(ended, nil, func() {
		shard.Lock()
		defer shard.Unlock()
		if err := s.pages.Drop(ended); err != nil {
			t.Error(err)
		}
		s.dropped = append(s.dropped, ended)
	})
}

// TestChangeWhileAReaderParks: a reader that keeps a flushed generation from being dropped parks,
// and between the two steps of that a delete is applied, which publishes a version with the lock of
// its shard held. The delete takes the generations back and must not wait for that lock.
func TestChangeWhileAReaderParks(t *testing.T) {
	s := newShelf(t)
	var shard sync.Mutex
	l := s.Lease(s.pages)
	s.flush(t, &shard)
	if len(s.dropped) > 0 {
		t.Fatal("a generation was dropped that is read")
	}
	l.state.Store(leaseParked) // as park does before it looks for a newer version
	shard.Lock()
	s.AddTombstone(Tombstone{IDs: []uint32{0}}, s.pages.End)
	shard.Unlock()
	l.End()
	s.Sweeper.Wait()
	if !slices.Equal(s.dropped, []uint32{1}) || len(s.pages.Generations()) != 1 {
		t.Errorf("dropped is %d; %d generations are kept", s.dropped, s.pages.Generations())
	}
}

// TestParkedTwice: a lease gives its generations back once, however often it is parked while
// newer versions come.
func TestParkedTwice(t *testing.T) {
	s := newShelf(t)
	var shard sync.Mutex
	reader := s.Lease(s.pages)
	reader.Park()
	s.flush(t, &shard)
	reader.Park()
	reader.Park()
	if reader.hold() {
		t.Error("a lease has generations that it gave back")
	}
	if reader.Enter(); !reader.hold() || reader.Version != s.latest.Load() {
		t.Error("a lease that is entered again has no current version")
	}
	reader.End()
	s.Sweeper.Wait()
	if !slices.Equal(s.dropped, []uint32{1}) {
		t.Errorf("dropped is %d, want generation 1", s.dropped)
	}
}
