package node

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestDiskFillsAndEmpties lets the disk run full at random moments. Writes are
// refused with a text that names the place, reads go on, and what was answered
// stays; with room again writes go on, without a restart.
func TestDiskFillsAndEmpties(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(5)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewMemFS()
			r := newRun(seed)
			r.node = mustOpen(t, testOptions(fs, SyncAlways))
			for range 6 {
				for range 12 {
					r.step()
				}
				if len(r.errs) > 0 {
					t.Fatal(r.errs[0])
				}
				free, err := fs.Free("data")
				if err != nil {
					t.Fatal(err)
				}
				fs.SetCapacity(1<<40 - free + r.rng.Int64N(200<<10))
				for range 25 {
					r.step()
				}
				checkDiskErrors(t, r)
				r.mustHold(t, "while the disk is full")
				fs.SetCapacity(1 << 40)
				if err := r.heal(); err != nil {
					t.Fatal(err)
				}
				if err := r.node.Health(); err != nil && r.node.loop.refusals.full.Load() == nil {
					t.Fatal(err)
				}
			}
			r.mustHold(t, "at the end")
			r.node = reopen(t, r.node, testOptions(fs, SyncAlways))
			r.mustHold(t, "after a restart")
			if err := r.node.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// checkDiskErrors looks at the errors of a full disk and forgets them.
func checkDiskErrors(t *testing.T, r *run) {
	t.Helper()
	for _, err := range r.errs {
		if !vfs.IsNoSpace(err) {
			t.Fatalf("not the error of a full disk: %v", err)
		}
		if errors.Is(err, series.ErrReadOnly) && !strings.Contains(err.Error(), "data/") {
			t.Fatalf("the text names no file: %v", err)
		}
	}
	r.errs = nil
}

func reopen(t *testing.T, n *Node, o Options) *Node {
	t.Helper()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, o)
}

// outage fails operations of a file system from one on, for some of them.
type outage struct {
	seen     atomic.Int64
	from, to int64
	cause    error
	kinds    func(vfs.OpKind) bool
}

func (o *outage) rule(op vfs.Op) error {
	if !o.kinds(op.Kind) {
		return nil
	}
	if n := o.seen.Add(1); n >= o.from && n < o.to {
		return o.cause
	}
	return nil
}

func changesDisk(kind vfs.OpKind) bool {
	switch kind {
	case vfs.OpCreate, vfs.OpRemove, vfs.OpRename, vfs.OpSyncDir, vfs.OpWrite, vfs.OpTruncate, vfs.OpPreallocate, vfs.OpSync:
		return true
	default:
		return false
	}
}

// TestAnyOperationFails fails one operation of the disk after the other, or a few
// in a row, and then cuts the power: what was answered is there.
func TestAnyOperationFails(t *testing.T) {
	const steps = 45
	count := func(seed uint64) int64 {
		o := &outage{kinds: changesDisk}
		r := newRun(seed)
		r.node = mustOpen(t, testOptions(vfs.Faults(vfs.NewMemFS(), o.rule), SyncAlways))
		for range steps {
			r.step()
		}
		if err := r.node.Close(); err != nil || len(r.errs) > 0 {
			t.Fatal(err, r.errs)
		}
		return o.seen.Load()
	}
	for i := range storagetest.Seeds(36) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			seed := uint64(i / 10)
			rng := rand.New(rand.NewPCG(uint64(i), 12))
			o := &outage{kinds: changesDisk, cause: syscall.EIO}
			if i%2 == 0 {
				o.cause = syscall.ENOSPC
			}
			o.from = 1 + rng.Int64N(count(seed))
			o.to = o.from + 1 + rng.Int64N(3)*rng.Int64N(10)
			failOnce(t, seed, steps, o, rng)
		})
	}
}

func failOnce(t *testing.T, seed uint64, steps int, o *outage, rng *rand.Rand) {
	mem := vfs.NewMemFS()
	r := newRun(seed)
	var err error
	if r.node, err = Open(testOptions(vfs.Faults(mem, o.rule), SyncAlways)); err != nil {
		r.node = mustOpen(t, testOptions(mem, SyncAlways))
	}
	for range steps {
		r.step()
		if err := r.heal(); err != nil {
			r.errs = append(r.errs, err)
		}
	}
	r.mustHold(t, "after the failure")
	percent := rng.IntN(101)
	after := mem.CrashClone(vfs.CrashOptions{Seed: seed, BlockPercent: percent, NamePercent: percent})
	_ = r.node.Close() // may well fail

	for _, disk := range []*vfs.MemFS{after, mem} { // the power was cut; the process has ended
		fresh := &run{rng: r.rng, oracle: r.oracle, now: r.now, errs: r.errs}
		fresh.node = mustOpen(t, testOptions(disk, SyncAlways))
		fresh.mustHold(t, fmt.Sprintf("operations %d to %d failed with %v; after a restart", o.from, o.to, o.cause))
		if err := fresh.node.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
