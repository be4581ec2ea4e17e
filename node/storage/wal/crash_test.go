package wal

import (
	"fmt"
	"path"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestPowerCuts compares a log with the plain list of what was written, through
// power cuts that keep any of the unsynced blocks and names, and kills that keep
// all. It holds promises W1 to W4.
func TestPowerCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := vfs.NewMemFS()
		options := Options{
			FS: m, Dir: "log", RecycleMax: rapid.IntRange(-1, 3).Draw(t, "recycle"),
			FileBytes: rapid.SampledFrom([]int64{8 << 10, 12 << 10, 64 << 10}).Draw(t, "file"),
		}
		l, err := Open(options)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { l.Close() }()
		var want []entry
		var synced, trimmed, highest Position
		n := 0
		reopen := func(t *rapid.T, crash vfs.CrashOptions) {
			clone := m.CrashClone(crash)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			m, options.FS = clone, clone
			if l, err = Open(options); err != nil {
				t.Fatal(err)
			}
			kill := crash.BlockPercent == 100 && crash.NamePercent == 100
			if l.End() < synced || kill && l.End() < highest {
				t.Fatalf("the log ends at %d, but %d has been used and %d synced", l.End(), highest, synced)
			}
			highest = l.End()
			if want, err = survived(l, want, synced, trimmed, kill); err != nil {
				t.Fatal(err)
			}
			// What was read back after a start is durable, or it could vanish after
			// it has been acted upon.
			synced = l.Synced()
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				records := make([]string, rapid.IntRange(0, 12).Draw(t, "records"))
				for i := range records {
					n++
					records[i] = text(n, rapid.SampledFrom([]int{0, 1, 7, 8, 50, 300, 2000, 5000, 20000}).Draw(t, "length"))
				}
				entries, err := tryWrite(l, records...)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if e.at < highest {
						t.Fatalf("position %d is used again", e.at)
					}
					highest = e.end
				}
				want = append(want, entries...)
			},
			"sync": func(t *rapid.T) {
				if synced, err = l.Sync(); err != nil {
					t.Fatal(err)
				}
				if len(want) > 0 && synced < want[len(want)-1].end {
					t.Fatalf("synced %d of %d", synced, want[len(want)-1].end)
				}
			},
			"trim": func(t *rapid.T) {
				if len(want) == 0 {
					return
				}
				at := min(want[rapid.IntRange(0, len(want)-1).Draw(t, "trim")].at, synced)
				if err := l.TrimBefore(at); err != nil {
					t.Fatal(err)
				}
				trimmed = max(trimmed, at)
			},
			"writeback": func(t *rapid.T) {
				m.Writeback(rapid.Uint64().Draw(t, "seed"), rapid.SampledFrom([]int{10, 50, 90}).Draw(t, "blocks"))
			},
			"power cut": func(t *rapid.T) {
				reopen(t, vfs.CrashOptions{
					Seed:         rapid.Uint64().Draw(t, "seed"),
					BlockPercent: rapid.SampledFrom([]int{0, 5, 50, 95}).Draw(t, "blocks"),
					NamePercent:  rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "names"),
					ReorderNames: rapid.Bool().Draw(t, "disorder"),
				})
			},
			"kill": func(t *rapid.T) { reopen(t, vfs.CrashOptions{BlockPercent: 100, NamePercent: 100}) },
		})
	})
}

// survived checks what a log returns after a crash and returns what is left of want.
func survived(l *Log, want []entry, synced, trimmed Position, kill bool) ([]entry, error) {
	var got []entry
	from := max(trimmed, l.First())
	if trimmed != 0 && l.First() > trimmed {
		return nil, fmt.Errorf("the log starts at %d, only what is before %d was trimmed", l.First(), trimmed)
	}
	err := l.Replay(from, func(at, end Position, record []byte) error {
		got = append(got, entry{at, end, string(record)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s := l.Stats(); s.Corruptions != 0 {
		return nil, fmt.Errorf("a power cut was taken for damage: %+v", s)
	}
	start := 0
	for start < len(want) && want[start].at < from {
		start++
	}
	expected := want[start:]
	if len(got) > len(expected) {
		return nil, fmt.Errorf("%d records, only %d were written", len(got), len(expected))
	}
	if d := diff(got, expected[:len(got)]); d != "" {
		return nil, fmt.Errorf("not a first part: %s", d)
	}
	if len(got) < len(expected) && (kill || expected[len(got)].end <= synced) {
		return nil, fmt.Errorf("the record at %d is lost, synced up to %d", expected[len(got)].at, synced)
	}
	return expected[:len(got)], nil
}

// TestPowerCutsDuringOpen cuts the power at each operation of Open in turn.
func TestPowerCutsDuringOpen(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		m := vfs.NewMemFS()
		options := Options{FS: m, FileBytes: 8 << 10}
		l := openLog(t, options)
		var want []entry
		for n := range 30 {
			want = append(want, write(t, l, text(n, 500))...)
		}
		synced, err := l.Sync()
		must(t, err)
		for n := range 30 {
			want = append(want, write(t, l, text(n, 500))...)
		}
		torn := m.CrashClone(vfs.CrashOptions{Seed: seed, BlockPercent: 60, NamePercent: 50})
		must(t, l.Close())
		for operation := 1; ; operation++ {
			before := torn.CrashClone(vfs.CrashOptions{})
			at := 0
			var cut *vfs.MemFS
			options.FS = vfs.Faults(before, func(op vfs.Op) error {
				if op.Kind == vfs.OpSync || op.Kind == vfs.OpWrite || op.Kind == vfs.OpTruncate || op.Kind == vfs.OpRename || op.Kind == vfs.OpSyncDir {
					if at++; at == operation && cut == nil {
						cut = before.CrashClone(vfs.CrashOptions{Seed: seed, BlockPercent: 50, NamePercent: 50})
					}
				}
				return nil
			})
			// Without its background, Open runs alone and the operations have an order.
			options.Dir = "log"
			l, err := open(options)
			must(t, err)
			must(t, l.closeFiles())
			if cut == nil {
				break
			}
			options.FS = cut
			l = openLog(t, options)
			if _, err := survived(l, want, synced, 0, false); err != nil {
				t.Fatalf("seed %d, cut at operation %d: %v", seed, operation, err)
			}
			must(t, l.Close())
		}
	}
}

// TestFlippedBits flips one bit of a closed log. The record it is in may be
// missing, and then it has been reported; all others come back (W5).
func TestFlippedBits(t *testing.T) {
	m := vfs.NewMemFS()
	options := Options{FS: m, FileBytes: 8 << 10}
	l := openLog(t, options)
	var want []entry
	for n := range 60 {
		want = append(want, write(t, l, text(n, n*13%900))...)
		if n%7 == 0 {
			_, err := l.Sync()
			must(t, err)
		}
	}
	must(t, l.TrimBefore(want[20].at)) // so that some files are recycled
	waitForNext(t, l)
	for n := range 40 {
		want = append(want, write(t, l, text(n+100, n*17%900))...)
	}
	first := l.First()
	for want[0].at < first {
		want = want[1:]
	}
	must(t, l.Close())
	names, err := m.List("log")
	must(t, err)
	rapid.Check(t, func(t *rapid.T) {
		clone := m.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
		name := path.Join("log", rapid.SampledFrom(names).Draw(t, "file"))
		info, err := clone.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size == 0 {
			return
		}
		offset := rapid.Int64Range(0, info.Size-1).Draw(t, "offset")
		flip(t, clone, name, offset, rapid.IntRange(0, 7).Draw(t, "bit"))
		var reports []*CorruptError
		broken := options
		broken.FS, broken.Dir = clone, "log"
		broken.OnCorrupt = func(e *CorruptError) { reports = append(reports, e) }
		l, err := Open(broken)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var got []entry
		err = l.Replay(0, func(at, end Position, record []byte) error {
			got = append(got, entry{at, end, string(record)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := onlyMissing(got, want, name, offset); err != nil {
			t.Fatal(err)
		}
		if len(got) < len(want) && (len(reports) != 1 || l.Stats().Corruptions != 1 || reports[0].Length <= 0) {
			t.Fatalf("a record is missing and the reports are %v", reports)
		}
		if len(reports) == 1 && (reports[0].File != name || offset < reports[0].Offset || offset >= reports[0].Offset+reports[0].Length) {
			t.Fatalf("the flip at %d of %s was reported as %v", offset, name, reports[0])
		}
	})
}

// onlyMissing checks that got is want without at most the record that has offset.
func onlyMissing(got, want []entry, name string, offset int64) error {
	base, _ := parseFileName(path.Base(name))
	flipped := base + Position(offset)
	i := 0
	for _, w := range want {
		switch {
		case i < len(got) && got[i] == w:
			i++
		case flipped < w.at || flipped >= w.end:
			return fmt.Errorf("the record at [%d, %d) is missing, the flip was at %d", w.at, w.end, flipped)
		}
	}
	if i != len(got) {
		return fmt.Errorf("%d records, %d of them known", len(got), i)
	}
	return nil
}

func flip(t *rapid.T, fsys vfs.FS, name string, offset int64, bit int) {
	f, err := fsys.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << bit
	if _, err := f.WriteAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
}
