package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// labSnapshot is a snapshot of a lab node.
type labSnapshot struct {
	name    string
	applied [labShards]uint64 // each shard has at least what was applied when it was begun,
	through [labShards]uint64 // and at most what was when it was done
}

// snapshot makes one, or is told of the error of a disk.
func (n *labNode) snapshot(name string, meanwhile func()) (*labSnapshot, error) {
	s := &labSnapshot{name: name}
	for shard := range labShards {
		s.applied[shard] = n.appliedTo(shard)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		meanwhile()
	}()
	err := n.e.Snapshot(n.t.Context(), name)
	<-done
	for shard := range labShards {
		s.through[shard] = n.appliedTo(shard)
	}
	return s, err
}

// checkSnapshot opens a snapshot and compares each shard with the model at the entry that the snapshot says.
func (n *labNode) checkSnapshot(what string, s *labSnapshot) {
	n.t.Helper()
	o := n.options()
	o.Dir, o.ReadOnly = SnapshotFolder(o.Dir, s.name), true
	e, err := Open(o)
	if err != nil {
		n.t.Fatalf("%s: snapshot %s: %v", what, s.name, err)
	}
	of := &labNode{t: n.t, e: e}
	defer of.end()
	for shard, at := range e.AppliedIndexes() {
		if at < s.applied[shard] || at > s.through[shard] {
			n.t.Fatalf("%s: snapshot %s has shard %d at entry %d, which was at %d before and %d after", what, s.name, shard, at, s.applied[shard], s.through[shard])
		}
		got, err := of.contents(shard)
		if err != nil {
			n.t.Fatalf("%s: snapshot %s: shard %d: %v", what, s.name, shard, err)
		}
		want := n.logs[shard].at(at).contents()
		if !maps.EqualFunc(got, want, maps.Equal[map[int64]uint64, map[int64]uint64]) {
			n.t.Fatalf("%s: snapshot %s: shard %d at entry %d: %s", what, s.name, shard, at, labDifference(want, got))
		}
		of.compareLast(what, shard, want)
		of.compareDays(what, shard, want)
	}
}

// TestSnapshots takes snapshots between and during writes, deletes, cuts, flushes and merges, goes on with all of these,
// and finds each snapshot to be what each shard was at one entry. A power cut leaves none, and no harm.
func TestSnapshots(t *testing.T) {
	for seed := range storagetest.Seeds(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), 41))
			n := newLabNode(t, newLabLogs())
			defer func() { n.end() }()
			for i := range n.hosts {
				n.hosts[i] = true
				n.logs[i].churn = seed%2 == 0
			}
			var held []*labSnapshot
			for step := range 200 {
				what := fmt.Sprintf("step %d", step)
				for range rng.IntN(4) {
					n.logs[rng.IntN(labShards)].grow(rng)
				}
				if rng.IntN(3) == 0 {
					if err := n.maintain(rng); err != nil {
						t.Fatal(err)
					}
				}
				if rng.IntN(10) == 0 {
					s, err := n.snapshot(fmt.Sprint(step), func() { n.applyAll(rng) })
					if err != nil {
						t.Fatal(err)
					}
					held = append(held, s)
				}
				n.applyAll(rng)
				if len(held) > 0 && rng.IntN(12) == 0 {
					n.checkSnapshot(what, held[rng.IntN(len(held))])
				}
				if rng.IntN(60) == 0 {
					n.crash(rng)
					held = nil
					if _, err := n.fs.Stat("data/" + dirSnapshots); !errors.Is(err, fs.ErrNotExist) {
						t.Fatalf("%s: after a start there is a folder of snapshots: %v", what, err)
					}
				}
			}
			for _, s := range held {
				n.checkSnapshot("at the end", s)
			}
			n.check("at the end")
			n.crash(rng)
			n.check("after a power cut")
		})
	}
}

// applyAll applies what there is, in random order of shards.
func (n *labNode) applyAll(rng *rand.Rand) {
	for _, shard := range rng.Perm(labShards) {
		n.apply(shard, math.MaxInt)
	}
}

// TestSnapshotOfAFailingDisk has each operation of the disk fail once while a snapshot is made: then there is none of it,
// and the next one is whole.
func TestSnapshotOfAFailingDisk(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 42))
	failed := 0
	for at := int64(1); ; at++ {
		n := newLabNode(t, newLabLogs())
		for i := range n.hosts {
			n.hosts[i] = true
		}
		for range 40 {
			n.logs[rng.IntN(labShards)].grow(rng)
		}
		n.applyAll(rng)
		if err := n.e.Flush(); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			n.logs[rng.IntN(labShards)].grow(rng)
		}
		n.applyAll(rng)
		n.faultIn.Store(at)
		s, err := n.snapshot("a", func() {})
		left := n.faultIn.Swap(0)
		switch {
		case err == nil:
			n.checkSnapshot("whole", s)
		default:
			failed++
			if _, err := n.fs.Stat(SnapshotFolder("data", "a")); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("operation %d failed, and the snapshot is there: %v", at, err)
			}
			if err := n.e.Resume(); err == nil {
				n.check("after a failure")
			}
		}
		after := n.fs.CrashClone(vfs.CrashOptions{Seed: rng.Uint64(), BlockPercent: 100, NamePercent: 100})
		_ = n.e.Close() // a page log that met the failure cannot be closed
		n.fs = after
		n.open()
		n.check("after a start")
		if s, err = n.snapshot("b", func() {}); err != nil {
			t.Fatal(err)
		}
		n.checkSnapshot("after a start", s)
		n.end()
		if left > 0 {
			break
		}
	}
	if failed < 8 {
		t.Errorf("only %d failures met a snapshot", failed)
	}
}

// TestSnapshotChangesNoFile opens a snapshot and finds each file of the data folder with the bytes that it had, and
// finds that the data folder goes on when the snapshot is removed.
func TestSnapshotChangesNoFile(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 43))
	n := newLabNode(t, newLabLogs())
	defer func() { n.end() }()
	for i := range n.hosts {
		n.hosts[i] = true
	}
	for range 200 {
		n.logs[rng.IntN(labShards)].grow(rng)
	}
	n.applyAll(rng)
	if err := n.e.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		n.logs[rng.IntN(labShards)].grow(rng)
	}
	n.applyAll(rng)
	s, err := n.snapshot("a", func() {})
	if err != nil {
		t.Fatal(err)
	}
	before := filesBelow(t, n.fs, "data", dirSnapshots)
	if len(before) < 8 {
		t.Fatalf("only %d files: %v", len(before), slices.Sorted(maps.Keys(before)))
	}
	n.checkSnapshot("first", s)
	if after := filesBelow(t, n.fs, "data", dirSnapshots); !maps.Equal(before, after) {
		t.Error("to read a snapshot has changed files of the data folder")
	}
	for range 100 {
		n.logs[rng.IntN(labShards)].grow(rng)
		n.applyAll(rng)
	}
	if err := n.e.Flush(); err != nil {
		t.Fatal(err)
	}
	n.checkSnapshot("after more writes", s)
	if err := vfs.RemoveAll(n.fs, SnapshotFolder("data", "a")); err != nil {
		t.Fatal(err)
	}
	n.check("without the snapshot")
	n.crash(rng)
	n.check("after a power cut")
}

// filesBelow returns the bytes of all files below a folder, but for a folder in it.
func filesBelow(t *testing.T, fsys vfs.FS, dir, but string) map[string]string {
	t.Helper()
	files := map[string]string{}
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := fsys.Stat(path.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case name == but:
		case info.Dir:
			maps.Copy(files, filesBelow(t, fsys, path.Join(dir, name), ""))
		default:
			b, err := vfs.ReadFile(fsys, path.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			files[path.Join(dir, name)] = string(b)
		}
	}
	return files
}

// TestSnapshotOfMoreThanThePageLogHas takes a snapshot of more in hot pages than the page log has generations for, while flushes
// go on: neither it nor writes meet the bound. Without flushes it is refused before writes would be.
func TestSnapshotOfMoreThanThePageLogHas(t *testing.T) {
	const inBatch, many = 1_000, 40_000
	e, err := Open(Options{
		FS: vfs.NewMemFS(), Dir: "data", Shards: 1, SyncLog: func() error { return nil },
		ExtentBytes: 64 << 10, GenerationBytesMax: 64 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	index := uint64(0)
	writeAll := func() {
		t.Helper()
		for n := 0; n < many; n += inBatch {
			var b series.BatchEncoder
			for i := range inBatch {
				key := series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("n"), Value: fmt.Append(nil, n+i)}})
				b.Append(b.Define(key), 1_700_000_000_000+int64(index), int64(n), 0)
			}
			index++
			if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: index, Body: samplesBody(b.AppendTo(nil))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	writeAll()
	done, flushed := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				flushed <- nil
				return
			default:
			}
			if e.pace.waiting.Load() == 0 {
				runtime.Gosched()
			} else if err := e.Flush(); err != nil {
				flushed <- err
				return
			}
		}
	}()
	err = e.Snapshot(t.Context(), "a")
	close(done)
	if err := errors.Join(err, <-flushed); err != nil {
		t.Fatal(err)
	}
	if n := e.Stats().Flushes; n <= pagelog.GenerationsMax {
		t.Fatalf("only %d generations: the test is not what it should be", n)
	}
	writeAll()
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Snapshot(late, "b"); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v; want that of the context", err)
	}
	if _, err := e.fs.Stat(SnapshotFolder("data", "b")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a snapshot that was not made is there: %v", err)
	}
	writeAll()
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotIsNoDataFolder: who opened a snapshot for writing would cut the files of the data folder.
func TestSnapshotIsNoDataFolder(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 44))
	n := newLabNode(t, newLabLogs())
	defer func() { n.end() }()
	for i := range n.hosts {
		n.hosts[i] = true
	}
	for range 100 {
		n.logs[rng.IntN(labShards)].grow(rng)
	}
	n.applyAll(rng)
	if _, err := n.snapshot("a", func() {}); err != nil {
		t.Fatal(err)
	}
	n.applyAll(rng)
	before := filesBelow(t, n.fs, "data", "")
	o := n.options()
	o.Dir = SnapshotFolder(o.Dir, "a")
	if e, err := Open(o); !errors.Is(err, manifest.ErrUnusable) {
		t.Fatalf("a snapshot as a data folder: %v, %v", e, err)
	}
	o.Dir, o.ReadOnly = "other", true
	if e, err := Open(o); !errors.Is(err, manifest.ErrUnusable) {
		t.Fatalf("a data folder as a snapshot: %v, %v", e, err)
	}
	after := filesBelow(t, n.fs, "data", "")
	for name, b := range before {
		if after[name] != b {
			t.Errorf("%s has changed", name)
		}
	}
	n.check("after that")
}
