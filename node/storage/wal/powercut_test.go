package wal

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestFailedSyncIsNotBelieved lets a sync fail as it does on Linux: the pages stay
// readable and count as clean, so that the next sync succeeds without writing
// them. What is read back after a restart is nevertheless durable.
func TestFailedSyncIsNotBelieved(t *testing.T) {
	m := vfs.NewMemFS()
	failing := false
	fsys := vfs.Faults(m, func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && failing {
			m.LoseWriteback(op.Name)
			return syscall.EIO
		}
		return nil
	})
	options := Options{FS: fsys, Dir: "log", FileBytes: 8 << 10}
	l, err := open(options)
	must(t, err)
	var want []entry
	for n := range 30 {
		want = append(want, write(t, l, text(n, 500))...)
	}
	failing = true
	if _, err := l.Sync(); err == nil {
		t.Fatal("the sync must fail")
	}
	failing = false
	if _, err := l.Sync(); err == nil {
		t.Fatal("a sync after a failed one must fail too")
	}
	if err := l.Close(); err == nil {
		t.Fatal("the close of a broken log must tell")
	}
	l, err = open(options) // the process starts again, the machine does not
	must(t, err)
	if d := diff(replay(t, l, 0), want); d != "" {
		t.Fatal(d)
	}
	synced := l.Synced()
	must(t, l.closeFiles())
	options.FS = m.CrashClone(vfs.CrashOptions{})
	l = openLog(t, options)
	if _, err := survived(l, want, synced, 0, false); err != nil {
		t.Fatal(err)
	}
	must(t, l.Close())
}

// moment is a file system at one moment of a run, and what was promised by then.
type moment struct {
	name            string
	fsys            *vfs.MemFS
	synced, trimmed Position
}

// run is a life of a log of which every moment is kept.
type run struct {
	want            []entry // all that is ever written
	synced, trimmed Position
	moments         []moment
}

// changes reports whether an operation changes what is on the disk.
func changes(kind vfs.OpKind) bool {
	switch kind {
	case vfs.OpCreate, vfs.OpRemove, vfs.OpRename, vfs.OpSyncDir, vfs.OpWrite, vfs.OpTruncate, vfs.OpPreallocate, vfs.OpSync:
		return true
	}
	return false
}

// watch returns a file system that keeps every moment before a change, in the forms
// that a power cut could give it.
func (r *run) watch(m *vfs.MemFS, seeds uint64) vfs.FS {
	n := 0
	return vfs.Faults(m, func(op vfs.Op) error {
		if !changes(op.Kind) {
			return nil
		}
		n++
		forms := []vfs.CrashOptions{{}, {BlockPercent: 100, NamePercent: 100}, {BlockPercent: 100}, {NamePercent: 100}}
		for seed := range seeds {
			forms = append(forms, vfs.CrashOptions{
				Seed: seed + uint64(n)<<8, BlockPercent: 30 + 20*int(seed%3), NamePercent: 50, ReorderNames: seed%2 == 0,
			})
		}
		for _, form := range forms {
			r.moments = append(r.moments, moment{
				fmt.Sprintf("change %d, of %s, as %+v", n, op.Name, form), m.CrashClone(form), r.synced, r.trimmed,
			})
		}
		return nil
	})
}

// play does all that a log does: records of many sizes, syncs, changes of file, a
// record larger than a file, trimming and recycling. Without the background its
// operations have an order.
func (r *run) play(t *testing.T, options Options, from int) {
	t.Helper()
	l, err := open(options)
	must(t, err)
	for n := range 24 {
		r.want = append(r.want, write(t, l, text(from+n, []int{0, 9, 700, 3000}[n%4]), text(from+n, 40))...)
		if n == 13 {
			r.want = append(r.want, write(t, l, text(from+n, 9000))...)
		}
		switch n % 6 {
		case 3:
			r.synced, err = l.Sync()
			must(t, err)
		case 4:
			must(t, l.makeNext(n > 12))
		case 5:
			r.trimmed = max(r.trimmed, min(r.want[len(r.want)/2].at, r.synced))
			must(t, l.TrimBefore(r.trimmed))
		}
	}
	must(t, l.closeFiles())
}

// TestPowerCutAtEveryOperation cuts the power before each change that a run makes
// to the disk, starts again, goes on writing, and cuts the power again.
func TestPowerCutAtEveryOperation(t *testing.T) {
	t.Parallel()
	m := vfs.NewMemFS()
	first := &run{}
	options := Options{FS: first.watch(m, 4), Dir: "log", FileBytes: 8 << 10, RecycleMax: 2}
	first.play(t, options, 0)
	for i, at := range first.moments {
		options.FS = at.fsys
		l, err := open(options)
		must(t, err)
		left, err := survived(l, first.want, at.synced, at.trimmed, false)
		if err != nil {
			t.Fatalf("%s: %v", at.name, err)
		}
		second := &run{want: slices.Clone(left), synced: l.Synced(), trimmed: at.trimmed}
		must(t, l.closeFiles())
		if i%127 != 0 { // a second life for some
			continue
		}
		options.FS = second.watch(at.fsys, 1)
		second.play(t, options, 1000)
		for _, again := range second.moments {
			options.FS = again.fsys
			l, err := open(options)
			must(t, err)
			if _, err := survived(l, second.want, again.synced, again.trimmed, false); err != nil {
				t.Fatalf("%s, then %s: %v", at.name, again.name, err)
			}
			must(t, l.closeFiles())
		}
	}
}

// TestRemovedEmptyFileStaysAway: a power cut may leave more empty files than are
// ever made ahead. Those that Open removes must not come back inside of a file
// that has grown over their positions.
func TestRemovedEmptyFileStaysAway(t *testing.T) {
	m := vfs.NewMemFS()
	options := Options{FS: m, Dir: "log", FileBytes: 8 << 10}
	l, err := open(options)
	must(t, err)
	for n := range 2 {
		write(t, l, text(n, 3000)) // each fills a file
	}
	must(t, l.makeNext(false))
	must(t, l.closeFiles())
	m = m.CrashClone(vfs.CrashOptions{}) // no record survives: three empty files
	options.FS = m
	l, err = open(options)
	must(t, err)
	want := write(t, l, text(7, 10), text(8, 9000)) // the second file grows over the third
	synced, err := l.Sync()
	must(t, err)
	must(t, l.closeFiles())
	options.FS = m.CrashClone(vfs.CrashOptions{})
	l, err = open(options)
	must(t, err)
	if _, err := survived(l, want, synced, 0, false); err != nil {
		t.Fatal(err)
	}
	must(t, l.closeFiles())
}
