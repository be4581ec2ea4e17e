package wal

import (
	"path"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// damaged is a log of five files that was synced but never closed.
func damaged(t *testing.T) (*vfs.MemFS, Options, []entry) {
	m := vfs.NewMemFS()
	options := Options{FS: m, Dir: "log", FileBytes: 8 << 10}
	l := openLog(t, options)
	var want []entry
	for n := range 50 {
		want = append(want, write(t, l, text(n, 300))...)
		if n%5 == 4 {
			_, err := l.Sync()
			must(t, err)
		}
	}
	clone := m.CrashClone(vfs.CrashOptions{})
	must(t, l.Close())
	options.FS = clone
	return clone, options, want
}

func reopen(t *testing.T, options Options) ([]entry, []*CorruptError) {
	var reports []*CorruptError
	options.OnCorrupt = func(e *CorruptError) { reports = append(reports, e) }
	l := openLog(t, options)
	got := replay(t, l, 0)
	must(t, l.Close())
	return got, reports
}

// TestDamageBeforeTheLastSyncCostsItself: no record of a log that was not closed
// is given up because of damage to one that a later record calls synced.
func TestDamageBeforeTheLastSyncCostsItself(t *testing.T) {
	_, _, want := damaged(t)
	for i := range want[:45] { // record 45 is the first that calls 44 synced
		m, options, want := damaged(t)
		l, err := open(options) // without the background, which would go on with the folder
		must(t, err)
		l.mu.Lock()
		var name string
		var base Position
		for _, f := range l.mu.files {
			if f.base <= want[i].at && want[i].at < f.end() {
				name, base = f.name, f.base
			}
		}
		l.mu.Unlock()
		must(t, l.closeFiles())
		f, err := m.OpenReadWrite(name)
		must(t, err)
		_, err = f.WriteAt([]byte{0xff, 0xfe, 0xfd, 0xfc}, int64(want[i].at-base)+int64(i%100))
		must(t, err)
		got, reports := reopen(t, options)
		if d := diff(got, append(append([]entry(nil), want[:i]...), want[i+1:]...)); d != "" {
			t.Fatalf("with record %d damaged: %s", i, d)
		}
		if len(reports) != 1 || reports[0].At != want[i].at || reports[0].Length != int64(want[i].end-want[i].at) {
			t.Fatalf("with record %d damaged: reports %v", i, reports)
		}
	}
}

func TestMissingFile(t *testing.T) {
	m, options, want := damaged(t)
	names, err := m.List("log")
	must(t, err)
	var base Position
	for _, name := range names {
		if b, ok := parseFileName(name); ok && b > 0 && base == 0 {
			base = b
			must(t, m.Remove(path.Join("log", name)))
		}
	}
	got, reports := reopen(t, options)
	var left []entry
	for _, e := range want {
		if e.at < base || e.at >= base+8<<10 {
			left = append(left, e)
		}
	}
	if d := diff(got, left); d != "" || len(left) == len(want) {
		t.Fatalf("%d of %d records are left: %s", len(left), len(want), d)
	}
	if len(reports) != 1 || reports[0].At != base || reports[0].Length != 8<<10 {
		t.Errorf("reports %v", reports)
	}
}
