package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func TestMemFSIsFullAtItsCapacity(t *testing.T) {
	m := NewMemFS()
	m.SetCapacity(10000)
	f, err := m.Create("f")
	must(t, err)
	must(t, f.Preallocate(8000))
	if err := f.Preallocate(10001); !IsNoSpace(err) {
		t.Errorf("preallocate beyond the capacity gave %v", err)
	}
	if _, err := f.WriteAt(make([]byte, 10), 9999); !IsNoSpace(err) {
		t.Errorf("a write beyond the capacity gave %v", err)
	}
	if _, err := f.WriteAt(make([]byte, 10), 7995); err != nil {
		t.Errorf("a write within the capacity gave %v", err)
	}
	if free, _ := m.Free("."); free != 10000-8005 {
		t.Errorf("free is %d", free)
	}
	must(t, m.Remove("f"))
	if free, _ := m.Free("."); free != 10000 {
		t.Errorf("free is %d after all was removed", free)
	}
}

func TestFaults(t *testing.T) {
	m := NewMemFS()
	var fail func(Op) error
	fsys := Faults(m, func(op Op) error {
		if fail == nil {
			return nil
		}
		return fail(op)
	})
	f, err := fsys.Create("f")
	must(t, err)
	_, err = f.WriteAt([]byte("0123456789"), 0)
	must(t, err)

	fail = func(op Op) error {
		if op.Kind == OpWrite && op.Name == "f" && op.Offset == 2 && op.Length == 4 {
			return &ShortWrite{Bytes: 3, Err: syscall.ENOSPC}
		}
		return nil
	}
	if n, err := f.WriteAt([]byte("abcd"), 2); n != 3 || !IsNoSpace(err) {
		t.Errorf("the short write gave %d, %v", n, err)
	}
	if got := contents(t, m, "f"); got != "01abc56789" {
		t.Errorf("after the short write: %q", got)
	}

	fail = func(Op) error { return syscall.EIO }
	for what, err := range map[string]error{
		"mkdir": fsys.MkdirAll("d"), "create": second(fsys.Create("g")), "open": second(fsys.Open("f")),
		"open rw": second(fsys.OpenReadWrite("f")), "remove": fsys.Remove("f"), "rename": fsys.Rename("f", "g"),
		"list": second(fsys.List(".")), "stat": second(fsys.Stat("f")), "sync dir": fsys.SyncDir("."),
		"lock": second(fsys.Lock("l")), "free": second(fsys.Free(".")), "read": second(f.ReadAt(make([]byte, 1), 0)),
		"write": second(f.WriteAt([]byte("x"), 0)), "truncate": f.Truncate(0), "preallocate": f.Preallocate(100),
		"sync": f.Sync(), "map": second(f.Map(1)),
	} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s gave %v", what, err)
		}
	}
	if got := m.String(); got != "f 10" {
		t.Errorf("operations that failed had an effect: %s", got)
	}
}

func TestCounting(t *testing.T) {
	fail := false
	c := Counting(Faults(NewMemFS(), func(op Op) error {
		if fail && op.Kind == OpSync {
			return syscall.EIO
		}
		return nil
	}), "wal-", "page-")
	for _, name := range []string{"wal-1", "wal-2", "other"} {
		f, err := c.Create(name)
		must(t, err)
		must(t, f.Preallocate(100))
		_, err = f.WriteAt(make([]byte, 30), 0)
		must(t, err)
		must(t, f.Sync())
		fail = true
		if f.Sync() == nil {
			t.Fatal("no error")
		}
		fail = false
	}
	counts := c.Counts()
	for i := range counts {
		counts[i].SyncTime = 0
	}
	want := "[{wal- 60 200 2 4 0s 2} {page- 0 0 0 0 0s 0} { 30 100 1 2 0s 1}]"
	if got := fmt.Sprint(counts); got != want {
		t.Errorf("counts are %s\nwant       %s", got, want)
	}
}

// TestMemFSBehavesAsOS applies the same random operations to both and compares all
// that can be seen.
func TestMemFSBehavesAsOS(t *testing.T) {
	root := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		dir := path.Join(root, fmt.Sprint(run))
		mem := NewMemFS()
		both := []FS{OS(), mem}
		for _, fsys := range both {
			if err := fsys.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		name := rapid.Custom(func(t *rapid.T) string {
			return path.Join(dir, rapid.SampledFrom([]string{"a", "b", "c", "missing/d"}).Draw(t, "base"))
		})
		same := func(t *rapid.T, what string, act func(FS) (string, error)) {
			one, errOne := act(both[0])
			two, errTwo := act(both[1])
			if one != two || (errOne == nil) != (errTwo == nil) {
				t.Fatalf("%s: os gave %.100q, %v; memory gave %.100q, %v", what, one, errOne, two, errTwo)
			}
		}
		file := func(t *rapid.T, what string, act func(File) error) {
			n := name.Draw(t, "name")
			same(t, what, func(fsys FS) (string, error) {
				f, err := fsys.OpenReadWrite(n)
				if err != nil {
					return "", err
				}
				defer f.Close()
				if err := act(f); err != nil {
					return "", err
				}
				size, _ := f.Size()
				b := make([]byte, size)
				_, _ = f.ReadAt(b, 0)
				return string(b), nil
			})
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				n := name.Draw(t, "name")
				same(t, "create", func(fsys FS) (string, error) {
					f, err := fsys.Create(n)
					if err != nil {
						return "", err
					}
					return "", f.Close()
				})
			},
			"write": func(t *rapid.T) {
				b := bytes.Repeat([]byte{rapid.Byte().Draw(t, "fill")}, rapid.IntRange(0, 9000).Draw(t, "length"))
				offset := rapid.Int64Range(0, 9000).Draw(t, "offset")
				file(t, "write", func(f File) error { _, err := f.WriteAt(b, offset); return err })
			},
			"truncate": func(t *rapid.T) {
				size := rapid.Int64Range(0, 20000).Draw(t, "size")
				file(t, "truncate", func(f File) error { return f.Truncate(size) })
			},
			"preallocate": func(t *rapid.T) {
				size := rapid.Int64Range(0, 20000).Draw(t, "size")
				file(t, "preallocate", func(f File) error { return f.Preallocate(size) })
			},
			"rename": func(t *rapid.T) {
				from, to := name.Draw(t, "from"), name.Draw(t, "to")
				same(t, "rename", func(fsys FS) (string, error) { return "", fsys.Rename(from, to) })
			},
			"remove": func(t *rapid.T) {
				n := name.Draw(t, "name")
				same(t, "remove", func(fsys FS) (string, error) { return "", fsys.Remove(n) })
			},
			"": func(t *rapid.T) {
				same(t, "list", func(fsys FS) (string, error) {
					names, err := fsys.List(dir)
					return fmt.Sprint(names), err
				})
			},
		})
	})
}
