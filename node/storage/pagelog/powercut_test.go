package pagelog

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// moment is a file system at one moment of a life, with what the owner's manifest
// said by then.
type moment struct {
	name  string
	fsys  *vfs.MemFS
	state State
	pages *model
}

// life is a page log with its owner, of which every moment is kept.
type life struct {
	now   *model
	state State
	count int

	mu        sync.Mutex // the page log makes extents in the background
	published State
	durable   *model
	moments   []moment
}

func changes(kind vfs.OpKind) bool {
	switch kind {
	case vfs.OpCreate, vfs.OpRemove, vfs.OpSyncDir, vfs.OpWrite, vfs.OpTruncate, vfs.OpPreallocate, vfs.OpSync:
		return true
	}
	return false
}

// watch keeps every moment before a change, in forms that a power cut could give it.
func (f *life) watch(m *vfs.MemFS, seeds uint64) vfs.FS {
	n := 0
	return vfs.Faults(m, func(op vfs.Op) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !changes(op.Kind) {
			return nil
		}
		n++
		forms := []vfs.CrashOptions{{}, {BlockPercent: 100, NamePercent: 100}, {BlockPercent: 100}, {NamePercent: 100}}
		for seed := range seeds {
			forms = append(forms, vfs.CrashOptions{Seed: seed + uint64(n)<<8, BlockPercent: 50, NamePercent: 50, ReorderNames: seed%2 == 0})
		}
		for _, form := range forms {
			f.moments = append(f.moments, moment{
				name: fmt.Sprintf("change %d, of %s, as %+v", n, op.Name, form), fsys: m.CrashClone(form), state: f.published, pages: f.durable,
			})
		}
		return nil
	})
}

// publish is the owner's manifest.
func (f *life) publish(state State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.published, f.durable = state, state, f.now.clone()
}

// live appends, syncs, rolls and drops.
func (f *life) live(t *testing.T, l *Log) {
	t.Helper()
	for i := range 40 {
		for n := range 3 {
			f.count++
			p := Page{Shard: uint16(i), ID: uint32(n), Payload: payloadOf(f.count, []int{4096, 60, 1000}[n])}
			ref, err := l.Append(p.Shard, p.ID, p.Previous, p.Payload)
			if errors.Is(err, ErrGenerationFull) {
				break // a later life goes on in one that has pages
			}
			must(t, err)
			f.now.pages[f.now.current()] = append(f.now.pages[f.now.current()], entry{ref, f.now.current(), p})
		}
		if i%3 == 2 {
			state, err := l.Sync()
			must(t, err)
			f.publish(state)
		}
		if i%10 == 9 {
			ended, err := l.Roll()
			must(t, err)
			f.now.generations = append(f.now.generations, ended+1)
		}
		if i%20 == 14 && len(f.now.generations) > 1 {
			state, err := l.Sync()
			must(t, err)
			oldest := f.now.generations[0]
			state.Generations = state.Generations[1:]
			f.now.generations = f.now.generations[1:]
			delete(f.now.pages, oldest)
			f.publish(state)
			must(t, l.Drop(oldest))
		}
	}
}

// TestPowerCutAtEveryOperation cuts the power before each change that a life makes
// to the disk, Open included. What Open then returns is what the manifest says.
func TestPowerCutAtEveryOperation(t *testing.T) {
	m := vfs.NewMemFS()
	first := &life{now: newModel(), durable: newModel()}
	l, err := Open(small(first.watch(m, 2)), State{}, nil)
	must(t, err)
	first.live(t, l)
	must(t, l.Close())
	for i, at := range first.moments {
		second := &life{now: at.pages.clone(), durable: at.pages, published: at.state, count: 1000}
		again := i%301 == 0
		fsys := vfs.FS(at.fsys)
		if again {
			fsys = second.watch(at.fsys, 1)
		}
		l, err := second.now.opened(small(fsys), at.state)
		if err == nil {
			err = second.now.check(l)
		}
		if err != nil {
			t.Fatalf("%s: %v", at.name, err)
		}
		if again {
			second.live(t, l)
		}
		must(t, l.Close())
		for _, later := range second.moments {
			l, err := later.pages.opened(small(later.fsys), later.state)
			if err == nil {
				err = later.pages.check(l)
			}
			if err != nil {
				t.Fatalf("%s, then %s: %v", at.name, later.name, err)
			}
			must(t, l.Close())
		}
	}
}

// TestFailedSyncIsNotPublished: after a sync that failed as on Linux, where the
// pages then count as clean, no State is given that names what was lost.
func TestFailedSyncIsNotPublished(t *testing.T) {
	m := vfs.NewMemFS()
	failing := false
	fsys := vfs.Faults(m, func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && failing {
			m.LoseWriteback(op.Name)
			return syscall.EIO
		}
		return nil
	})
	f := &life{now: newModel(), durable: newModel()}
	l, err := Open(small(fsys), State{}, nil)
	must(t, err)
	f.live(t, l)
	state, err := l.Sync()
	must(t, err)
	f.publish(state)
	if _, err := l.Append(1, 2, 0, payloadOf(3, 4)); err != nil {
		t.Fatal(err)
	}
	failing = true
	if _, err := l.Sync(); err == nil {
		t.Fatal("the sync must fail")
	}
	failing = false
	if _, err := l.Sync(); err == nil {
		t.Fatal("a sync after a failed one must fail too")
	}
	_ = l.Close()
	l, err = f.durable.opened(small(m.CrashClone(vfs.CrashOptions{})), f.published)
	must(t, err)
	must(t, f.durable.check(l))
	must(t, l.Close())
}
