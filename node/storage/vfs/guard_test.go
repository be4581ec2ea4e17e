package vfs

import (
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// truncatedMapping maps two blocks of a real file and takes the file away.
func truncatedMapping(t testing.TB) *Mapping {
	t.Helper()
	name := filepath.Join(t.TempDir(), "cut")
	f, err := OS().Create(name)
	must(t, err)
	must(t, f.Preallocate(64*BlockBytes))
	m, err := f.Map(64 * BlockBytes)
	must(t, err)
	must(t, f.Close())
	must(t, os.Truncate(name, 100))
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}

func TestGuardTurnsFaultsIntoErrors(t *testing.T) {
	m := truncatedMapping(t)
	b := m.Bytes()
	sink := make([]byte, len(b))
	for what, read := range map[string]func() error{
		"load": func() error { sink[0] = b[33*BlockBytes]; return nil },
		"copy": func() error { copy(sink, b); return nil },
		"hash": func() error {
			_ = crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
			return nil
		},
	} {
		var fault *FaultError
		if err := Guard(read); !errors.As(err, &fault) || fault.Address == 0 || fault.Name != "" {
			t.Errorf("%s: Guard gave %v", what, err)
		}
		err := m.Guard(func([]byte) error { return read() })
		if !errors.As(err, &fault) || fault.Name != m.Name() || !strings.Contains(err.Error(), m.Name()) {
			t.Errorf("%s: the mapping's Guard gave %v", what, err)
		}
	}
	if err := m.Guard(func(b []byte) error { sink[0] = b[99]; return nil }); err != nil {
		t.Errorf("what is left of the file gave %v", err)
	}
}

func TestGuardNestsAndRestores(t *testing.T) {
	b := truncatedMapping(t).Bytes()
	fault := func() error { return errors.New(string(b[33*BlockBytes : 33*BlockBytes+8])) }
	var sawFault *FaultError
	err := Guard(func() error {
		if inner := Guard(fault); !errors.As(inner, &sawFault) {
			t.Errorf("the inner guard gave %v", inner)
		}
		return fault() // still guarded
	})
	if !errors.As(err, &sawFault) {
		t.Errorf("the outer guard gave %v", err)
	}
	if debug.SetPanicOnFault(false) {
		t.Error("the setting was not restored")
	}
	if err := Guard(func() error { return os.ErrClosed }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("an error of the function became %v", err)
	}
}

func TestGuardLetsOtherPanicsPass(t *testing.T) {
	m := truncatedMapping(t)
	var nothing *Info
	for what, read := range map[string]func([]byte) error{
		"value": func([]byte) error { panic("mine") },
		"nil":   func([]byte) error { nothing.Size++; return nil },
		"index": func(b []byte) error { _ = b[len(b)]; return nil },
	} {
		for _, guard := range []func() error{
			func() error { return Guard(func() error { return read(m.Bytes()) }) },
			func() error { return m.Guard(read) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: the panic was swallowed", what)
					}
				}()
				_ = guard()
			}()
		}
	}
	if debug.SetPanicOnFault(false) {
		t.Error("the setting was not restored")
	}
	// A fault outside the mapping is not this mapping's.
	other := truncatedMapping(t)
	var fault *FaultError
	err := other.Guard(func([]byte) error {
		return m.Guard(func([]byte) error { return errors.New(string(other.Bytes()[33*BlockBytes:])) })
	})
	if !errors.As(err, &fault) || fault.Name != other.Name() {
		t.Errorf("a fault of another mapping gave %v", err)
	}
}

func TestMappingClosedTooOften(t *testing.T) {
	m := newMapping("x", []byte{1}, func([]byte) error { return nil }, nil)
	must(t, m.Close())
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_ = m.Close()
}

func BenchmarkGuard(b *testing.B) {
	x := make([]byte, 8)
	var n byte
	for b.Loop() {
		_ = Guard(func() error { n += x[3]; return nil })
	}
}

func BenchmarkMappingGuard(b *testing.B) {
	m := newMapping("x", make([]byte, 8), func([]byte) error { return nil }, nil)
	var n byte
	for b.Loop() {
		_ = m.Guard(func(x []byte) error { n += x[3]; return nil })
	}
}
