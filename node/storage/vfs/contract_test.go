package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"testing"
)

// implementations runs a test over every implementation and wrapper.
func implementations(t *testing.T, test func(t *testing.T, fsys FS, dir string)) {
	t.Run("os", func(t *testing.T) { test(t, OS(), t.TempDir()) })
	t.Run("mem", func(t *testing.T) {
		m := NewMemFS()
		must(t, m.MkdirAll("/data"))
		test(t, m, "/data")
	})
	t.Run("mem relative", func(t *testing.T) { test(t, NewMemFS(), ".") })
	t.Run("wrapped", func(t *testing.T) {
		m := NewMemFS()
		must(t, m.MkdirAll("data"))
		test(t, Faults(Counting(m, "a"), func(Op) error { return nil }), "data")
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, fsys FS, name, contents string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.WriteAt([]byte(contents), 0)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

func contents(t testing.TB, fsys FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) != size || err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("read %d of %d bytes: %v", n, size, err)
	}
	return string(b)
}

func TestContractNames(t *testing.T) {
	implementations(t, func(t *testing.T, fsys FS, dir string) {
		a, b, deep := path.Join(dir, "a"), path.Join(dir, "b"), path.Join(dir, "x/y/z")
		for what, err := range map[string]error{
			"open":   second(fsys.Open(a)),
			"write":  second(fsys.OpenReadWrite(a)),
			"stat":   second(fsys.Stat(a)),
			"list":   second(fsys.List(a)),
			"remove": fsys.Remove(a),
			"rename": fsys.Rename(a, b),
			"below":  second(fsys.Create(path.Join(deep, "f"))),
			"sync":   fsys.SyncDir(deep),
			"free":   second(fsys.Free(deep)),
		} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s of what is not there gave %v", what, err)
			}
		}
		must(t, fsys.MkdirAll(deep))
		must(t, fsys.MkdirAll(deep))
		create(t, fsys, b, "bb")
		create(t, fsys, a, "a")
		if err := fsys.MkdirAll(path.Join(a, "sub")); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("a directory below a file: %v", err)
		}
		if _, err := fsys.Create(deep); err == nil {
			t.Error("a file was created over a directory")
		}
		if err := fsys.Remove(path.Join(dir, "x")); err == nil {
			t.Error("a directory with entries was removed")
		}
		names, err := fsys.List(dir)
		if must(t, err); !slices.Equal(names, []string{"a", "b", "x"}) {
			t.Errorf("list gave %q", names)
		}
		must(t, fsys.Rename(b, a))
		if got := contents(t, fsys, a); got != "bb" {
			t.Errorf("after the rename a holds %q", got)
		}
		if info, err := fsys.Stat(a); err != nil || info != (Info{Size: 2}) {
			t.Errorf("stat of a gave %+v, %v", info, err)
		}
		if info, err := fsys.Stat(deep); err != nil || !info.Dir {
			t.Errorf("stat of a directory gave %+v, %v", info, err)
		}
		must(t, fsys.SyncDir(dir))
		must(t, fsys.Remove(a))
		must(t, fsys.Remove(deep))
		names, err = fsys.List(dir)
		if must(t, err); !slices.Equal(names, []string{"x"}) {
			t.Errorf("list gave %q", names)
		}
		if free, err := fsys.Free(dir); err != nil || free <= 0 {
			t.Errorf("free gave %d, %v", free, err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestContractFile(t *testing.T) {
	implementations(t, func(t *testing.T, fsys FS, dir string) {
		name := path.Join(dir, "f")
		f, err := fsys.Create(name)
		must(t, err)
		if f.Name() != name {
			t.Errorf("name %q", f.Name())
		}
		_, err = f.WriteAt([]byte("tail"), 5000)
		must(t, err)
		want := append(make([]byte, 5000), "tail"...)
		if got := contents(t, fsys, name); got != string(want) {
			t.Error("a gap does not read as zeros")
		}
		must(t, f.Truncate(5002))
		must(t, f.Preallocate(9000))
		must(t, f.Preallocate(100))
		want = append(want[:5002], make([]byte, 9000-5002)...)
		if got := contents(t, fsys, name); got != string(want) {
			t.Error("truncate and preallocate do not give zeros")
		}
		must(t, f.Truncate(10))
		must(t, f.Truncate(6000))
		if size, err := f.Size(); err != nil || size != 6000 {
			t.Errorf("size %d, %v", size, err)
		}
		b := make([]byte, 20)
		if n, err := f.ReadAt(b, 5990); n != 10 || !errors.Is(err, io.EOF) {
			t.Errorf("read across the end gave %d, %v", n, err)
		}
		if n, err := f.ReadAt(b, 7000); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("read beyond the end gave %d, %v", n, err)
		}
		if _, err := f.ReadAt(b, -1); err == nil {
			t.Error("a negative offset was taken")
		}
		r, err := fsys.Open(name)
		must(t, err)
		if _, err := r.WriteAt(b, 0); err == nil {
			t.Error("a handle for reading wrote")
		}
		must(t, fsys.Remove(name))
		_, err = f.WriteAt([]byte("still"), 0)
		must(t, err)
		if _, err := r.ReadAt(b[:5], 0); err != nil || string(b[:5]) != "still" {
			t.Errorf("a removed file gave %q, %v", b[:5], err)
		}
		must(t, f.Close())
		must(t, r.Close())
		if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("a second close gave %v", err)
		}
		if _, err := f.WriteAt(b, 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("a write after close gave %v", err)
		}
	})
}

func TestContractCreateEmptiesAndOpenKeeps(t *testing.T) {
	implementations(t, func(t *testing.T, fsys FS, dir string) {
		name := path.Join(dir, "f")
		create(t, fsys, name, "first")
		f, err := fsys.OpenReadWrite(name)
		must(t, err)
		_, err = f.WriteAt([]byte("F"), 0)
		must(t, err)
		must(t, f.Close())
		if got := contents(t, fsys, name); got != "First" {
			t.Errorf("open for writing gave %q", got)
		}
		create(t, fsys, name, "2")
		if got := contents(t, fsys, name); got != "2" {
			t.Errorf("create gave %q", got)
		}
	})
}

func TestContractMapping(t *testing.T) {
	implementations(t, func(t *testing.T, fsys FS, dir string) {
		f, err := fsys.Create(path.Join(dir, "f"))
		must(t, err)
		must(t, f.Preallocate(3*BlockBytes))
		for _, length := range []int64{0, -1, 3*BlockBytes + 1} {
			if _, err := f.Map(length); !errors.Is(err, ErrMapLength) {
				t.Errorf("a mapping of %d bytes gave %v", length, err)
			}
		}
		m, err := f.Map(3 * BlockBytes)
		must(t, err)
		short, err := f.Map(10)
		must(t, err)
		address := &m.Bytes()[0]
		check := func(offset int64, text string) {
			t.Helper()
			_, err := f.WriteAt([]byte(text), offset)
			must(t, err)
			if !bytes.Equal(m.Bytes()[offset:offset+int64(len(text))], []byte(text)) {
				t.Errorf("a write at %d does not show in the mapping", offset)
			}
		}
		check(5000, "before growth")
		must(t, f.Preallocate(200*BlockBytes))
		check(6000, "after growth")
		check(0, "start")
		if string(short.Bytes()[:5]) != "start" || len(short.Bytes()) != 10 {
			t.Error("the short mapping differs")
		}
		must(t, m.Advise(0, 1<<40, AdviceWillNeed))
		must(t, m.Advise(5000, 10, AdviceRandom))
		must(t, m.Advise(5000, 10, AdviceDontNeed))
		must(t, m.Advise(0, 10, AdviceNormal))
		must(t, f.Close())
		if !m.Retain() {
			t.Fatal("retain failed")
		}
		must(t, m.Close())
		if string(m.Bytes()[5000:5006]) != "before" || address != &m.Bytes()[0] {
			t.Error("the mapping changed after one of two closes")
		}
		must(t, m.Close())
		if m.Retain() {
			t.Error("a mapping without references was retained")
		}
		must(t, short.Close())
	})
}

func TestContractLock(t *testing.T) {
	implementations(t, func(t *testing.T, fsys FS, dir string) {
		name := path.Join(dir, "LOCK")
		l, err := fsys.Lock(name)
		must(t, err)
		if _, err := fsys.Lock(name); !errors.Is(err, ErrLocked) {
			t.Errorf("a second lock gave %v", err)
		}
		must(t, l.Close())
		if err := l.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("a second close gave %v", err)
		}
		l, err = fsys.Lock(name)
		must(t, err)
		must(t, l.Close())
	})
}
