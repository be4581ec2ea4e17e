package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAsyncSync asks the kernel for syncs, of files that can be synced and of what cannot: the error is fdatasync's.
func TestAsyncSync(t *testing.T) {
	a, err := newAsyncSync()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	defer file.Close()
	for range 3 {
		_, err = file.WriteString("text")
		must(t, err)
		must(t, a.submit(int(file.Fd())))
		must(t, a.wait())
	}
	var pipe [2]int
	must(t, unix.Pipe(pipe[:]))
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	s := newSyncs()
	if got, want := s.fdatasync(pipe[0]), unix.Fdatasync(pipe[0]); !errors.Is(got, want) || want == nil {
		t.Errorf("sync of a pipe: %v, and fdatasync: %v", got, want)
	}
	if s.off.Load() {
		t.Error("what cannot be synced ended asynchronous syncs")
	}
}

// TestSyncsApart: what it reports is what syncs of files do.
func TestSyncsApart(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	defer file.Close()
	s := newSyncs()
	must(t, s.fdatasync(int(file.Fd())))
	if SyncsApart() == s.off.Load() {
		t.Errorf("syncs apart: %v, and asynchronous syncs are off: %v", SyncsApart(), s.off.Load())
	}
}

// TestAsyncSyncFails: the error of a sync that the kernel took is that of its end, and the next one is its own.
func TestAsyncSyncFails(t *testing.T) {
	a, err := newAsyncSync()
	must(t, err)
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	defer file.Close()
	var full [2]int
	must(t, unix.Pipe(full[:]))
	defer unix.Close(full[0])
	defer unix.Close(full[1])
	if err := a.submit(full[1]); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a pipe: %v", err)
	}
	must(t, a.submit(int(file.Fd())))
	must(t, a.wait())
}

// TestSyncsAtOnce: more syncs at once than there are asynchronous ones, and none is lost.
func TestSyncsAtOnce(t *testing.T) {
	fsys, dir := OS().(osFS), t.TempDir()
	var work sync.WaitGroup
	for i := range 4 * asyncSyncsMax {
		work.Go(func() {
			f, err := fsys.Create(filepath.Join(dir, string(rune('a'+i))))
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			for at := range int64(20) {
				if _, err := f.WriteAt([]byte("x"), at); err != nil {
					t.Error(err)
				}
				if err := f.Sync(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if made := fsys.syncs.made.Load(); made < 1 || made > asyncSyncsMax || len(fsys.syncs.free) != int(made) {
		t.Errorf("%d made, %d of them free", made, len(fsys.syncs.free))
	}
}

// TestSyncWithoutAsync: where the kernel has no asynchronous syncs, files are synced all the same.
func TestSyncWithoutAsync(t *testing.T) {
	fsys := OS().(osFS)
	fsys.syncs.off.Store(true)
	f, err := fsys.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
	if fsys.syncs.made.Load() != 0 {
		t.Error("one was made")
	}
}
