package wal

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestFailureAtEveryOperation lets each change to the disk fail in turn, once and
// for ever, and goes on as far as the log does. What was acknowledged is there
// after a restart, and what was synced after a power cut; a write that was refused
// for want of room is not.
func TestFailureAtEveryOperation(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{syscall.EIO, syscall.ENOSPC, &vfs.ShortWrite{Bytes: 100, Err: syscall.ENOSPC}} {
		for _, last := range []int{0, 1 << 30} { // further operations that fail
			for operation := 1; ; operation++ {
				name := fmt.Sprintf("%v at change %d and %d more", failure, operation, last)
				m := vfs.NewMemFS()
				n, healed := 0, false
				fsys := vfs.Faults(m, func(op vfs.Op) error {
					if !changes(op.Kind) || healed {
						return nil
					}
					if n++; n < operation || n-operation > last {
						return nil
					}
					if op.Kind == vfs.OpSync {
						m.LoseWriteback(op.Name)
					}
					return failure
				})
				f := &unlucky{options: Options{FS: fsys, Dir: "log", FileBytes: 8 << 10, RecycleMax: 2}, refused: map[string]bool{}}
				f.play()
				if n < operation {
					break // the run has no more operations
				}
				healed = true
				if err := f.check(m.CrashClone(vfs.CrashOptions{}), f.synced); err != nil {
					t.Fatalf("%s: after a power cut: %v", name, err)
				}
				if err := f.check(m, f.acknowledged()); err != nil {
					t.Fatalf("%s: after a restart: %v", name, err)
				}
			}
		}
	}
}

// unlucky is a run on a disk that fails, and what it knows.
type unlucky struct {
	options         Options
	want            []entry // acknowledged
	refused         map[string]bool
	synced, trimmed Position
}

func (f *unlucky) acknowledged() Position {
	if len(f.want) == 0 {
		return 0
	}
	return f.want[len(f.want)-1].end
}

// play writes until the log takes no more. A full disk is tried again.
func (f *unlucky) play() {
	l, err := open(f.options)
	if err != nil {
		return
	}
	for n := range 24 {
		record := fmt.Sprintf("%d %s", n, strings.Repeat("x", []int{0, 700, 3000}[n%3]))
		if n == 13 {
			record += strings.Repeat("y", 9000)
		}
		entries, err := tryWrite(l, record)
		var space *SpaceError
		switch {
		case err == nil:
			f.want = append(f.want, entries...)
		case errors.As(err, &space):
			f.refused[record] = true
		}
		switch n % 6 {
		case 3:
			if synced, err := l.Sync(); err == nil {
				f.synced = synced
			}
		case 4:
			_ = l.makeNext(n > 12)
		case 5:
			if len(f.want) > 0 {
				f.trimmed = max(f.trimmed, min(f.want[len(f.want)/2].at, f.synced))
				_ = l.TrimBefore(f.trimmed)
			}
		}
	}
	_ = l.closeFiles()
}

// check opens what a disk has: at least the records that end by a position, in
// their order, nothing that was refused, and nothing is taken for damage.
func (f *unlucky) check(m *vfs.MemFS, promised Position) error {
	options := f.options
	options.FS = m
	l, err := open(options)
	if err != nil {
		return err
	}
	defer l.closeFiles()
	from := max(f.trimmed, l.First())
	if f.trimmed > 0 && l.First() > f.trimmed {
		return fmt.Errorf("the log starts at %d, only what is before %d was trimmed", l.First(), f.trimmed)
	}
	want := f.want
	for len(want) > 0 && want[0].at < from {
		want = want[1:]
	}
	err = l.Replay(from, func(at, end Position, record []byte) error {
		switch {
		case len(want) > 0 && want[0] == entry{at, end, string(record)}:
			want = want[1:]
		case f.refused[string(record)]:
			return fmt.Errorf("the record at %d was refused", at)
		case len(want) > 0:
			return fmt.Errorf("the record at %d is not the one at %d", at, want[0].at)
		}
		return nil // a write that broke the log may have come through
	})
	if err != nil {
		return err
	}
	if len(want) > 0 && want[0].end <= promised {
		return fmt.Errorf("the record at %d is lost, %d is promised", want[0].at, promised)
	}
	if s := l.Stats(); s.Corruptions != 0 {
		return fmt.Errorf("taken for damage: %+v", s)
	}
	return nil
}
