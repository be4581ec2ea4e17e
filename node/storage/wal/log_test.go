package wal

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type entry struct {
	at, end Position
	record  string
}

func openLog(t testing.TB, options Options) *Log {
	t.Helper()
	if options.Dir == "" {
		options.Dir = "log"
	}
	l, err := Open(options)
	must(t, err)
	return l
}

// write writes one buffer and returns its entries as the caller may know them.
func write(t testing.TB, l *Log, records ...string) []entry {
	t.Helper()
	entries, err := tryWrite(l, records...)
	must(t, err)
	return entries
}

func tryWrite(l *Log, records ...string) ([]entry, error) {
	var b Buffer
	var entries []entry
	for _, r := range records {
		offset, err := b.Add([]byte(r[:len(r)/2]), nil, []byte(r[len(r)/2:]))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{Position(offset), Position(b.Len()), r})
	}
	start, end, err := l.Write(&b)
	if err != nil {
		return nil, err
	}
	if end != start+Position(b.Len()) || b.Records() != len(records) {
		return nil, fmt.Errorf("wrote [%d, %d) for %d bytes", start, end, b.Len())
	}
	for i := range entries {
		entries[i].at += start
		entries[i].end += start
	}
	return entries, nil
}

func replay(t testing.TB, l *Log, from Position) []entry {
	t.Helper()
	var got []entry
	must(t, l.Replay(from, func(at, end Position, record []byte) error {
		got = append(got, entry{at, end, string(record)})
		return nil
	}))
	return got
}

func diff(got, want []entry) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("record %d is [%d, %d) of %d bytes, want [%d, %d) of %d", i,
				got[i].at, got[i].end, len(got[i].record), want[i].at, want[i].end, len(want[i].record))
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d records, want %d", len(got), len(want))
	}
	return ""
}

func wantEntries(t testing.TB, l *Log, from Position, want []entry) {
	t.Helper()
	if d := diff(replay(t, l, from), want); d != "" {
		t.Fatal(d)
	}
	var b []byte
	for _, e := range want {
		var err error
		b, err = l.Record(e.at, b[:0])
		if err != nil || string(b) != e.record {
			t.Fatalf("record at %d: %d bytes, %v", e.at, len(b), err)
		}
	}
}

func text(n, length int) string {
	return string(bytes.Repeat([]byte{byte(n*7 + 1)}, length))
}

func TestWriteReplayReopen(t *testing.T) {
	m := vfs.NewMemFS()
	options := Options{FS: m, FileBytes: 16 << 10}
	l := openLog(t, options)
	var want []entry
	n := 0
	for round := range 5 {
		for range 20 {
			n++
			want = append(want, write(t, l, text(n, n%700), "", text(n, 1))...)
		}
		want = append(want, write(t, l, text(n, 40000+round))...) // larger than a file
		if round%2 == 0 {
			synced, err := l.Sync()
			must(t, err)
			if synced != want[len(want)-1].end || synced != l.End() {
				t.Fatalf("synced %d, wrote %d", synced, want[len(want)-1].end)
			}
		}
		wantEntries(t, l, 0, want)
		wantEntries(t, l, want[17].at, want[17:])
		wantEntries(t, l, want[17].end, want[18:])
		wantEntries(t, l, l.End(), nil)
		must(t, l.Close())
		l = openLog(t, options)
		wantEntries(t, l, 0, want)
	}
	if s := l.Stats(); s.Corruptions != 0 || s.TornTails != 0 || s.BrokenErr != nil {
		t.Errorf("stats %+v", s)
	}
	must(t, l.Close())
}

func TestCloseAndLock(t *testing.T) {
	m := vfs.NewMemFS()
	l := openLog(t, Options{FS: m, FileBytes: FileBytesMin})
	if _, err := Open(Options{FS: m, Dir: "log"}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("a second open gave %v", err)
	}
	must(t, l.Close())
	_, writeErr := tryWrite(l, "x")
	_, syncErr := l.Sync()
	_, recordErr := l.Record(0, nil)
	for what, err := range map[string]error{
		"write": writeErr, "sync": syncErr, "close": l.Close(), "trim": l.TrimBefore(1),
		"replay": l.Replay(0, nil), "record": recordErr,
	} {
		if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrNoRecord) && !errors.Is(err, ErrTrimmed) {
			t.Errorf("%s of a closed log gave %v", what, err)
		}
	}
	for _, bad := range []int64{1, FileBytesMin + 1, FileBytesMax + 8, -8} {
		if _, err := Open(Options{FS: m, Dir: "log", FileBytes: bad}); err == nil {
			t.Errorf("files of %d bytes were taken", bad)
		}
	}
}

func TestBounds(t *testing.T) {
	var b Buffer
	if _, err := b.Add(make([]byte, RecordBytesMax+1)); !errors.Is(err, ErrTooLarge) || b.Len() != 0 {
		t.Errorf("a record that is too large gave %v", err)
	}
	l := openLog(t, Options{FS: vfs.NewMemFS(), FileBytes: FileBytesMin})
	defer l.Close()
	for _, at := range []Position{0, 1, fileHeaderBytes, 1 << 40} {
		if _, err := l.Record(at, nil); !errors.Is(err, ErrNoRecord) {
			t.Errorf("record at %d gave %v", at, err)
		}
	}
}

func TestTrim(t *testing.T) {
	m := vfs.NewMemFS()
	options := Options{FS: m, FileBytes: 8 << 10, RecycleMax: 1}
	l := openLog(t, options)
	var want []entry
	for n := range 100 {
		want = append(want, write(t, l, text(n, 500))...)
	}
	for _, keep := range []int{10, 40, 41, 99} {
		must(t, l.TrimBefore(want[keep].at))
		if first := l.First(); first > want[keep].at || first+16<<10 < want[keep].at {
			t.Fatalf("trimmed to %d for %d", first, want[keep].at)
		}
		wantEntries(t, l, want[keep].at, want[keep:])
	}
	if err := l.Replay(want[0].at, nil); !errors.Is(err, ErrTrimmed) {
		t.Errorf("replay of what is trimmed gave %v", err)
	}
	must(t, l.TrimBefore(1<<60))
	if s := l.Stats(); s.Files > 2 || s.Spares > 1 || s.First > s.End || s.Bytes > 4*8<<10 {
		t.Errorf("after trimming all: %+v", s)
	}
	for n := range 100 {
		want = append(want, write(t, l, text(n+3, 500))...)
	}
	if s := l.Stats(); s.Recycled == 0 {
		t.Errorf("no file was recycled: %+v", s)
	}
	must(t, l.Close())
	l = openLog(t, options)
	got := replay(t, l, 0)
	if d := diff(got, want[len(want)-len(got):]); d != "" || len(got) < 100 {
		t.Fatal(len(got), d)
	}
	must(t, l.Close())
}

func TestReplayKeepsItsFilesFromTrim(t *testing.T) {
	l := openLog(t, Options{FS: vfs.NewMemFS(), FileBytes: 8 << 10, RecycleMax: 5})
	defer l.Close()
	var want []entry
	for n := range 50 {
		want = append(want, write(t, l, text(n, 600))...)
	}
	perFile := 0
	err := l.Replay(0, func(at, _ Position, record []byte) error {
		if at == want[0].at {
			must(t, l.TrimBefore(1<<60))
			for n := range 100 { // go through what could have been recycled
				write(t, l, text(n+100, 600))
			}
		}
		if string(record) != want[perFile].record {
			t.Fatalf("record %d changed while it was read", perFile)
		}
		perFile++
		return nil
	})
	if !errors.Is(err, ErrTrimmed) || perFile == 0 {
		t.Errorf("replay gave %d records and %v", perFile, err)
	}
	if s := l.Stats(); s.Files > 20 {
		t.Errorf("stats %+v", s)
	}
}

func TestReplayStopsAtAnError(t *testing.T) {
	l := openLog(t, Options{FS: vfs.NewMemFS(), FileBytes: 8 << 10})
	defer l.Close()
	write(t, l, "a", "b")
	mine := errors.New("mine")
	calls := 0
	if err := l.Replay(0, func(Position, Position, []byte) error { calls++; return mine }); !errors.Is(err, mine) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// faulty is a file system whose rule can be changed.
func faulty(inner vfs.FS) (vfs.FS, *rule) {
	r := &rule{}
	return vfs.Faults(inner, r.check), r
}

func TestBrokenAfterFailedWriteOrSync(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpSync} {
		m := vfs.NewMemFS()
		fsys, rule := faulty(m)
		l := openLog(t, Options{FS: fsys, FileBytes: 64 << 10})
		want := write(t, l, "before")
		waitForNext(t, l)
		rule.set(func(op vfs.Op) error {
			if op.Kind == kind {
				return &vfs.ShortWrite{Bytes: 20, Err: syscall.EIO}
			}
			return nil
		})
		_, err := tryWrite(l, "lost")
		if kind == vfs.OpSync {
			must(t, err)
			_, err = l.Sync()
		}
		if !errors.Is(err, ErrBroken) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("the failure gave %v", err)
		}
		rule.set(nil)
		_, writeErr := tryWrite(l, "x")
		_, syncErr := l.Sync()
		if !errors.Is(writeErr, ErrBroken) || !errors.Is(syncErr, ErrBroken) || l.Stats().BrokenErr == nil {
			t.Errorf("after it, write gave %v, sync %v", writeErr, syncErr)
		}
		if kind == vfs.OpWrite {
			wantEntries(t, l, 0, want)
		}
		if err := l.Close(); !errors.Is(err, ErrBroken) {
			t.Errorf("close gave %v", err)
		}
		l = openLog(t, Options{FS: m, FileBytes: 64 << 10})
		if got := replay(t, l, 0); len(got) < 1 || got[0].record != "before" {
			t.Errorf("after a restart: %v", got)
		}
		must(t, l.Close())
	}
}

func TestFullDiskComesBack(t *testing.T) {
	m := vfs.NewMemFS()
	l := openLog(t, Options{FS: m, FileBytes: 16 << 10})
	want := write(t, l, "first")
	waitForNext(t, l)
	free, err := m.Free(".")
	must(t, err)
	m.SetCapacity(1<<40 - free) // not a byte more
	var space *SpaceError
	for n := range 1000 {
		entries, err := tryWrite(l, text(n, 1000))
		if errors.As(err, &space) && vfs.IsNoSpace(err) {
			break
		}
		must(t, err)
		want = append(want, entries...)
	}
	if space == nil {
		t.Fatal("the disk was never full")
	}
	if l.Stats().AheadErr == nil || l.Stats().BrokenErr != nil {
		t.Errorf("stats %+v", l.Stats())
	}
	_, err = l.Sync()
	must(t, err)
	wantEntries(t, l, 0, want)

	full, err := Open(Options{FS: m.CrashClone(vfs.CrashOptions{}), Dir: "log", FileBytes: 16 << 10})
	must(t, err) // opens on a full disk
	if d := diff(replay(t, full, 0), want); d != "" {
		t.Error(d)
	}
	if _, err := tryWrite(full, "x"); !errors.As(err, &space) {
		t.Errorf("a write on a full disk gave %v", err)
	}
	must(t, full.Close())

	m.SetCapacity(1 << 40)
	want = append(want, write(t, l, text(1, 3000))...)
	wantEntries(t, l, 0, want)
	must(t, l.Close())
}

func TestFailpoints(t *testing.T) {
	for _, name := range Failpoints() {
		set, err := failpoint.Parse(name+"=error@2", Failpoints())
		must(t, err)
		m := vfs.NewMemFS()
		options := Options{FS: m, Dir: "log", FileBytes: 8 << 10, Failpoints: set}
		var want []entry
		certain := 0
		func() {
			l, err := Open(options)
			if err != nil {
				return
			}
			defer l.Close()
			for n := range 60 {
				entries, err := tryWrite(l, text(n, 300))
				if err != nil {
					return
				}
				want = append(want, entries...)
				if n%10 == 5 {
					if _, err := l.Sync(); err != nil {
						return
					}
					certain = len(want)
				}
				if n%20 == 19 && l.TrimBefore(want[0].at) != nil {
					return
				}
			}
		}()
		options.Failpoints = nil
		l := openLog(t, options)
		got := replay(t, l, 0)
		if len(got) < certain || len(got) < len(want) || diff(got[:len(want)], want) != "" {
			t.Errorf("%s: %d records of %d, %d synced", name, len(got), len(want), certain)
		}
		must(t, l.Close())
	}
}

// TestCloseGivesBack: a log that was closed takes little more room than its records, goes on
// where it ended, and has lost none of them wherever the disk failed or the power went meanwhile.
func TestCloseGivesBack(t *testing.T) {
	const fileBytes, recordBytes = 64 << 10, 500
	for fault := range 40 {
		m := vfs.NewMemFS()
		left := 0
		fsys := vfs.Faults(m, func(vfs.Op) error {
			if left--; left == 0 {
				return syscall.EIO
			}
			return nil
		})
		options := Options{FS: fsys, Dir: "log", FileBytes: fileBytes, RecycleMax: 3}
		l, err := open(options) // nothing is done in the background, where it would meet the fault
		must(t, err)
		var want []entry
		for n := range 5 * fileBytes / recordBytes {
			want = append(want, write(t, l, text(n, recordBytes))...)
		}
		trimmed := want[len(want)-20].at
		must(t, l.TrimBefore(trimmed))
		must(t, l.makeNext(false))
		_, err = l.Sync()
		must(t, err)
		end := l.End()
		left = fault
		err = l.Close()
		done := fault == 0 || left > 0
		left = 0
		if done != (err == nil) {
			t.Fatalf("close with a fault at operation %d: %v", fault, err)
		}
		free, err := m.Free("log")
		must(t, err)
		if used := 1<<40 - free; done && used > 2*fileBytes { // the records lie in up to two files
			t.Errorf("%d bytes are left for %d of records: %s", used, 20*recordBytes, m)
		}
		for _, fs := range []*vfs.MemFS{m, m.CrashClone(vfs.CrashOptions{Seed: uint64(fault), BlockPercent: 50, NamePercent: 50})} {
			options.FS = fs
			l = openLog(t, options)
			if _, err := survived(l, want, end, trimmed, false); err != nil {
				t.Fatalf("with a fault at operation %d: %v", fault, err)
			}
			more := write(t, l, text(1, recordBytes))
			if d := diff(replay(t, l, end), more); d != "" {
				t.Fatal(d)
			}
			must(t, l.Close())
		}
		if fault > 0 && done {
			return
		}
	}
	t.Error("a close has no end")
}
