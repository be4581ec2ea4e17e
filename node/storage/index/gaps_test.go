package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// gapModel is what a table says of one shard whose log forgets series.
type gapModel struct {
	keys      []string // by id
	forgotten map[uint32]bool
	meaning   map[string]uint32 // of the keys that are not forgotten
	entry     uint64
}

func newGapModel() *gapModel {
	return &gapModel{forgotten: map[uint32]bool{}, meaning: map[string]uint32{}}
}

func (m *gapModel) clone() *gapModel {
	return &gapModel{slices.Clone(m.keys), maps.Clone(m.forgotten), maps.Clone(m.meaning), m.entry}
}

// gapWorld is a table, its model, and both as they were when a manifest was written last.
type gapWorld struct {
	t     *rapid.T
	fs    *vfs.MemFS
	x     *Index
	m     *gapModel
	state State
	saved *gapModel
	rule  atomic.Pointer[func(vfs.Op) error]
	names int
}

// gapKey returns the key of a number, so long that a block of the file of keys has a few hundred.
func gapKey(n int) series.Key {
	s := modelSeries{metric: "m" + fmt.Sprint(n%3), tags: map[string]string{"host": fmt.Sprint(n), "x": strings.Repeat("y", 400+n%7)}}
	return s.key()
}

func (w *gapWorld) open() {
	w.t.Helper()
	fs := vfs.Faults(w.fs, func(op vfs.Op) error {
		if rule := w.rule.Load(); rule != nil {
			return (*rule)(op)
		}
		return nil
	})
	x, err := Open(Options{
		FS: fs, Dir: "index", State: w.state, Applied: []uint64{w.m.entry}, PersistSeriesMin: 64,
		Corrupt: func(err error) { w.t.Error(err) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	x.LetDropKeys()
	w.x = x
}

func (w *gapWorld) create(n int) {
	w.t.Helper()
	for range n {
		key := gapKey(w.names)
		w.names++
		w.define(string(key))
	}
}

// define is what the engine does with a key that an entry of the log defines.
func (w *gapWorld) define(key string) {
	w.t.Helper()
	if _, known := w.m.meaning[key]; known {
		return
	}
	id := uint32(len(w.m.keys))
	if got := w.x.ShardSeries(0); got != id {
		w.t.Fatalf("the next id is %d, want %d", got, id)
	}
	if _, err := w.x.Create(0, series.ID(id), series.Key(key), 1); err != nil {
		w.t.Fatal(err)
	}
	w.m.keys, w.m.meaning[key] = append(w.m.keys, key), id
}

func (w *gapWorld) forget(ids []uint32) {
	w.t.Helper()
	w.m.entry++
	ids = slices.DeleteFunc(ids, func(id uint32) bool { return w.m.forgotten[id] })
	if err := w.x.Forget(0, ids, w.m.entry); err != nil {
		w.t.Fatal(err)
	}
	for _, id := range ids {
		w.m.forgotten[id] = true
		delete(w.m.meaning, w.m.keys[id])
	}
}

// checkpoint writes a manifest, in which all entries are.
func (w *gapWorld) checkpoint() error {
	state, err := w.x.Sync()
	if err != nil {
		return err
	}
	w.state, w.saved = state, w.m.clone()
	w.x.Published(state)
	return w.x.FinalizeForgotten([]uint64{w.m.entry})
}

// restart opens the table of the last manifest, after a power cut or not, with files that follow from the keys missing or not.
func (w *gapWorld) restart(cut bool, rng *rand.Rand) {
	w.t.Helper()
	percent := rng.IntN(101)
	after := w.fs.CrashClone(vfs.CrashOptions{Seed: rng.Uint64(), BlockPercent: percent, NamePercent: percent, ReorderNames: rng.IntN(2) == 0})
	if err := w.x.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.rule.Store(nil)
	if cut {
		w.fs = after
	}
	if rng.IntN(3) == 0 {
		names, err := w.fs.List("index")
		if err != nil {
			w.t.Fatal(err)
		}
		for _, name := range names {
			if name != "keys" && !strings.HasPrefix(name, forgottenPrefix) && !strings.Contains(name, "-19") && rng.IntN(2) == 0 {
				if err := w.fs.Remove(path.Join("index", name)); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
	w.m = w.saved.clone()
	w.open()
}

func (w *gapWorld) check() {
	w.t.Helper()
	for id, key := range w.m.keys {
		got, err := w.x.KeyOf(0, series.ID(id), nil)
		if gone := w.m.forgotten[uint32(id)]; err == nil && string(got) != key || err != nil && !(gone && errors.Is(err, ErrUnknown)) {
			w.t.Fatalf("id %d (forgotten: %v) is %q, %v", id, gone, got, err)
		}
		want, wanted := w.m.meaning[key]
		ref, known, err := w.x.Lookup(series.Key(key))
		if err != nil || known != wanted || known && uint32(ref.ID) != want {
			w.t.Fatalf("%q is id %d (%v), %v, want %d (%v)", key, ref.ID, known, err, want, wanted)
		}
	}
	locals, err := w.x.Select(context.Background(), &scan.Selector{MetricAny: true}, Days{0, DayMax}, 0, nil)
	if err != nil || len(locals) != len(w.m.meaning) {
		w.t.Fatalf("%d series are found, %v, want %d", len(locals), err, len(w.m.meaning))
	}
	refs, err := w.x.Refs(locals, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range refs {
		if id := uint32(refs[i].ID); w.m.meaning[w.m.keys[id]] != id {
			w.t.Fatalf("id %d is found", id)
		}
	}
	if w.x.Stats().Damages != 0 {
		w.t.Fatal("damages were found")
	}
}

// beginAgain lets a replica begin at its first entry, with the keys that it defined in the same order.
func (w *gapWorld) beginAgain() {
	w.t.Helper()
	before := w.m.keys
	w.m.keys, w.m.forgotten, w.m.meaning = nil, map[uint32]bool{}, map[string]uint32{}
	if err := w.x.BeginAgain(0); err != nil {
		w.t.Fatal(err)
	}
	for _, key := range before[:min(len(before), 600)] {
		w.define(key)
	}
}

// TestGaps plays creations, entries that forget, checkpoints, restarts and power cuts, and compares with a model.
func TestGaps(t *testing.T) {
	given := int64(0)
	rapid.Check(t, func(t *rapid.T) {
		w := &gapWorld{t: t, fs: vfs.NewMemFS(), m: newGapModel()}
		w.saved = w.m.clone()
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		w.open()
		w.create(4600) // a chunk of places, so that blocks may be given back
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch step := rng.IntN(10); step {
			case 0, 1, 2:
				w.create(rng.IntN(2500))
			case 3, 4:
				var ids []uint32
				from, to := rng.IntN(len(w.m.keys)+1), rng.IntN(len(w.m.keys)+1)
				every := 1 + rng.IntN(40)*rng.IntN(2)
				for id := min(from, to); id < max(from, to); id++ {
					if every == 1 || id%every != 0 {
						ids = append(ids, uint32(id))
					}
				}
				if len(ids) > 0 {
					w.forget(ids)
				}
			case 5: // keys come again
				for range 20 {
					if len(w.m.keys) > 0 {
						w.define(w.m.keys[rng.IntN(len(w.m.keys))])
					}
				}
			case 6, 7:
				for range 3 { // forgotten for good, dropped, given back
					if err := w.checkpoint(); err != nil {
						t.Fatal(err)
					}
				}
			case 8: // the power goes at one of the operations of a checkpoint
				left := int64(rng.IntN(60))
				var n atomic.Int64
				rule := func(vfs.Op) error {
					if n.Add(1) > left {
						return syscall.EIO
					}
					return nil
				}
				w.rule.Store(&rule)
				for range 3 {
					if w.checkpoint() != nil {
						break
					}
				}
				w.restart(true, rng)
			case 9:
				f := w.x.ForgottenOf(0)
				w.x.forgets.mu.Lock()
				gaps := f.dropped > 0
				w.x.forgets.mu.Unlock()
				if gaps && rng.IntN(3) == 0 {
					w.beginAgain()
				} else {
					w.restart(rng.IntN(2) == 0, rng)
				}
			}
			given = max(given, w.x.Stats().KeyBytesGiven)
			w.check()
		}
		if err := w.x.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d bytes at most were given back to the disk", given)
}

// TestGapsMade: ids that never had a record here stay what they are over a restart, and may get one.
func TestGapsMade(t *testing.T) {
	fs := vfs.NewMemFS()
	open := func(state State) *Index {
		t.Helper()
		x, err := Open(Options{FS: fs, Dir: "index", State: state, PersistSeriesMin: 1, Corrupt: func(err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := open(State{})
	const count = 3 * idChunkEntries
	var gone []uint32
	for id := range uint32(count) {
		var err error
		if id%3 == 0 {
			err, gone = x.MakeGap(2, series.ID(id)), append(gone, id)
		} else {
			_, err = x.Create(2, series.ID(id), gapKey(int(id)), 1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := x.MakeGap(2, count+1); !errors.Is(err, ErrIDGap) {
		t.Fatal(err)
	}
	if err := x.StageForgotten(2, gone); err != nil {
		t.Fatal(err)
	}
	sync := func() State {
		t.Helper()
		state, err := x.Sync()
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	state := sync()
	if err := x.ReplaceForgotten(2, gone); err != nil {
		t.Fatal(err)
	}
	check := func(known func(id uint32) bool) {
		t.Helper()
		for id := range uint32(count) {
			key, err := x.KeyOf(2, series.ID(id), nil)
			if known(id) != (err == nil) || err == nil && string(key) != string(gapKey(int(id))) || err != nil && !errors.Is(err, ErrUnknown) {
				t.Fatalf("id %d: %q, %v", id, key, err)
			}
		}
		if !x.DropsKeys() || !x.Gaps(2) || x.ShardSeries(2) != count {
			t.Fatalf("%v, %v, %d", x.DropsKeys(), x.Gaps(2), x.ShardSeries(2))
		}
	}
	for round := range 2 {
		check(func(id uint32) bool { return id%3 != 0 })
		state = sync()
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if x = open(state); round == 0 && state.Gaps[2] != uint32(len(gone)) {
			t.Fatal(state.Gaps)
		}
	}
	// The files of a replica that has not forgotten one of them yet.
	if _, err := x.CreateTwin(2, 3, gapKey(3), 1); err != nil {
		t.Fatal(err)
	}
	if err := x.ReplaceForgotten(2, slices.DeleteFunc(gone, func(id uint32) bool { return id == 3 })); err != nil {
		t.Fatal(err)
	}
	known := func(id uint32) bool { return id%3 != 0 || id == 3 }
	check(known)
	state = sync()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(state)
	check(known)
	if ref, ok, err := x.Lookup(gapKey(3)); err != nil || !ok || ref.ID != 3 {
		t.Fatal(ref, ok, err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestGapsOfOlderFolder: a folder in which series are forgotten stays one of before until keys may be dropped, and then loses them.
func TestGapsOfOlderFolder(t *testing.T) {
	fs := vfs.NewMemFS()
	open := func(state State) *Index {
		t.Helper()
		x, err := Open(Options{FS: fs, Dir: "index", State: state, Applied: []uint64{1}, Corrupt: func(err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := open(State{})
	const count, stay = 12_000, 100
	for id := range count {
		if _, err := x.Create(0, series.ID(id), gapKey(id), 1); err != nil {
			t.Fatal(err)
		}
	}
	gone := make([]uint32, 0, count)
	for id := uint32(stay); id < count; id++ {
		gone = append(gone, id)
	}
	if err := x.Forget(0, gone, 1); err != nil {
		t.Fatal(err)
	}
	checkpoints := func(version uint32) (state State) {
		t.Helper()
		for range 4 {
			var err error
			if state, err = x.Sync(); err != nil {
				t.Fatal(err)
			}
			x.Published(state)
			if err := x.FinalizeForgotten([]uint64{1}); err != nil {
				t.Fatal(err)
			}
		}
		got, _, err := readForgotten(fs, path.Join("index", forgottenFile(state.Forgotten.File)))
		if err != nil || got != version {
			t.Fatalf("version %d, %v, want %d", got, err, version)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		return state
	}
	x = open(checkpoints(wholeVersion))
	if x.DropsKeys() {
		t.Fatal("keys are dropped")
	}
	x.LetDropKeys()
	x = open(checkpoints(forgottenVersionDropped))
	if s := x.Stats(); !x.DropsKeys() || s.Dropped != count-stay || s.KeyBytesHeld*2 > s.KeyFileBytes || s.Damages != 0 {
		t.Errorf("%+v", s)
	}
	for id := range count {
		key, err := x.KeyOf(0, series.ID(id), nil)
		if id < stay && (err != nil || string(key) != string(gapKey(id))) || id >= stay && !errors.Is(err, ErrUnknown) {
			t.Fatalf("id %d is %q, %v", id, key, err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStagedStays: what is staged of a shard stays so while another one begins again.
func TestStagedStays(t *testing.T) {
	fs := vfs.NewMemFS()
	x, err := Open(Options{FS: fs, Dir: "index"})
	if err != nil {
		t.Fatal(err)
	}
	for shard := range uint16(2) {
		for id := range 4 {
			if _, err := x.Create(shard, series.ID(id), gapKey(10*int(shard)+id), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := x.Forget(1, []uint32{2}, 1); err != nil {
		t.Fatal(err)
	}
	if err := x.StageForgotten(0, []uint32{1, 3}); err != nil {
		t.Fatal(err)
	}
	if err := x.BeginAgain(1); err != nil {
		t.Fatal(err)
	}
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if x, err = Open(Options{FS: fs, Dir: "index", State: state, Applied: []uint64{1, 1}}); err != nil {
		t.Fatal(err)
	}
	if of0, of1 := x.ForgottenOf(0).IDs(), x.ForgottenOf(1).IDs(); !slices.Equal(of0, []uint32{1, 3}) || len(of1) > 0 {
		t.Errorf("%v and %v are forgotten", of0, of1)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestGapsOnDisk: what was forgotten leaves the disk, but not while the file has another name, and readers who look for the same
// keys meanwhile find what there is.
func TestGapsOnDisk(t *testing.T) {
	dir := t.TempDir()
	failing, err := failpoint.Parse(PointKeysPunch+"=error@2", Failpoints()) // once, between two holes: the rest comes later
	if err != nil {
		t.Fatal(err)
	}
	open := func(state State) *Index {
		t.Helper()
		x, err := Open(Options{FS: vfs.OS(), Dir: dir, State: state, Applied: []uint64{1, 1}, Failpoints: failing, Corrupt: func(err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		x.LetDropKeys()
		return x
	}
	x := open(State{})
	const count, stay = 100_000, 1000 // one run of them
	lives := func(id uint32) bool { return id >= count/2 && id < count/2+stay }
	var gone []uint32
	for id := range uint32(count) {
		if _, err := x.Create(1, series.ID(id), gapKey(int(id)), 1); err != nil {
			t.Fatal(err)
		}
		if !lives(id) {
			gone = append(gone, id)
		}
	}
	checkpoint := func() (state State) {
		t.Helper()
		state, err := x.Sync()
		if err == nil {
			x.Published(state)
			err = x.FinalizeForgotten([]uint64{0, 1})
		}
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	held := func() int64 {
		t.Helper()
		total := int64(0)
		names, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range names {
			var stat syscall.Stat_t
			if err := syscall.Stat(filepath.Join(dir, e.Name()), &stat); err == nil && e.Name() != "second" {
				total += stat.Blocks * 512
			}
		}
		return total
	}
	checkpoint()
	if err := x.Forget(1, gone, 1); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "keys"), filepath.Join(dir, "second")); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		checkpoint()
	}
	if given := x.Stats().KeyBytesGiven; given != 0 {
		t.Fatalf("%d bytes were given back that a snapshot has", given)
	}
	if err := os.Remove(filepath.Join(dir, "second")); err != nil {
		t.Fatal(err)
	}
	before := held()
	var readers sync.WaitGroup
	done := make(chan struct{})
	for n := range 2 {
		readers.Go(func() {
			for i := n; ; i = (i + 7919) % count {
				select {
				case <-done:
					return
				default:
				}
				ref, known, err := x.Lookup(gapKey(i))
				if err != nil || known != lives(uint32(i)) || known && ref.ID != series.ID(i) {
					t.Errorf("series %d is %v (%v), %v", i, ref, known, err)
					return
				}
			}
		})
	}
	var state State
	for range 10 {
		state = checkpoint()
	}
	close(done)
	readers.Wait()
	if failing.Hits(PointKeysPunch) < 3 {
		t.Errorf("a hole is made %d times", failing.Hits(PointKeysPunch))
	}
	for round := range 2 {
		for id := range uint32(count) {
			key, err := x.KeyOf(1, series.ID(id), nil)
			if lives(id) && (err != nil || string(key) != string(gapKey(int(id)))) || !lives(id) && id < count-20_000 && !errors.Is(err, ErrUnknown) {
				t.Fatalf("id %d is %q, %v", id, key, err)
			}
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			x = open(state)
		}
	}
	t.Logf("%d bytes on disk before, %d after", before, held())
	if after := held(); after*5 > before {
		t.Errorf("%d bytes are on disk, of %d before", after, before)
	}
}

// TestGapsOnlyBeginAgain: a shard that has gaps only begins again, and a start finds no damage.
func TestGapsOnlyBeginAgain(t *testing.T) {
	for _, again := range []int{0, 10, 600} {
		fs := vfs.NewMemFS()
		open := func(state State) *Index {
			t.Helper()
			x, err := Open(Options{FS: fs, Dir: "index", State: state, PersistSeriesMin: 1, Corrupt: func(err error) { t.Error(again, err) }})
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		sync := func(x *Index) State {
			t.Helper()
			state, err := x.Sync()
			if err != nil {
				t.Fatal(err)
			}
			x.Published(state)
			return state
		}
		x := open(State{})
		var gone []uint32
		for id := range uint32(2 * idChunkEntries) {
			if err := x.MakeGap(2, series.ID(id)); err != nil {
				t.Fatal(err)
			}
			gone = append(gone, id)
		}
		if err := x.ReplaceForgotten(2, gone); err != nil {
			t.Fatal(err)
		}
		sync(x)
		if err := x.BeginAgain(2); err != nil {
			t.Fatal(err)
		}
		for id := range again {
			if _, err := x.Create(2, series.ID(id), gapKey(id), 1); err != nil {
				t.Fatal(err)
			}
		}
		state := sync(x)
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		x = open(state)
		for id := range again {
			key, err := x.KeyOf(2, series.ID(id), nil)
			if err != nil || string(key) != string(gapKey(id)) {
				t.Fatal(id, err)
			}
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBeginAgainIsLost: the power goes when files have what a replica has begun again with, and the manifest has not.
func TestBeginAgainIsLost(t *testing.T) {
	fs := vfs.NewMemFS()
	open := func(state State) *Index {
		t.Helper()
		x, err := Open(Options{FS: fs, Dir: "index", State: state, Applied: []uint64{1}, PersistSeriesMin: 1, Corrupt: func(err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		x.LetDropKeys()
		return x
	}
	sync := func(x *Index) State {
		t.Helper()
		state, err := x.Sync()
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	x := open(State{})
	const count = 2 * idChunkEntries
	for id := range count {
		if _, err := x.Create(0, series.ID(id), gapKey(id), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Forget(0, []uint32{7}, 1); err != nil {
		t.Fatal(err)
	}
	var state State
	for range 3 {
		state = sync(x)
		x.Published(state)
		if err := x.FinalizeForgotten([]uint64{1}); err != nil {
			t.Fatal(err)
		}
	}
	if !x.Gone(0, 7) {
		t.Fatal("the key was not dropped")
	}
	if err := x.BeginAgain(0); err != nil {
		t.Fatal(err)
	}
	for id := range count {
		if _, err := x.Create(0, series.ID(id), gapKey(count+id), 1); err != nil {
			t.Fatal(err)
		}
	}
	sync(x)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(state)
	for id := range count {
		key, err := x.KeyOf(0, series.ID(id), nil)
		if id == 7 != (err != nil) || err == nil && string(key) != string(gapKey(id)) {
			t.Fatal(id, err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotKeepsItsIDs: a replica begins again while a snapshot is read, which has the file of ids by another name.
func TestSnapshotKeepsItsIDs(t *testing.T) {
	fs := vfs.NewMemFS()
	told := func(err error) { t.Error(err) }
	x, err := Open(Options{FS: fs, Dir: "index", PersistSeriesMin: 1, Corrupt: told})
	if err != nil {
		t.Fatal(err)
	}
	x.LetDropKeys()
	sync := func() State {
		t.Helper()
		state, err := x.Sync()
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	const count = 2 * idChunkEntries
	create := func(from int) {
		t.Helper()
		for id := range count {
			if _, err := x.Create(0, series.ID(id), gapKey(from+id), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	create(0)
	if err := x.Forget(0, []uint32{7}, 1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		x.Published(sync())
		if err := x.FinalizeForgotten([]uint64{1}); err != nil {
			t.Fatal(err)
		}
	}
	state := sync()
	if !x.Gone(0, 7) {
		t.Fatal("the key was not dropped")
	}
	if err := fs.MkdirAll("snapshot"); err != nil {
		t.Fatal(err)
	}
	if err := x.Link("snapshot"); err != nil {
		t.Fatal(err)
	}
	snapshot, err := Open(Options{FS: fs, Dir: "snapshot", State: state, Applied: []uint64{1}, ReadOnly: true, Corrupt: told})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.BeginAgain(0); err != nil {
		t.Fatal(err)
	}
	create(count)
	x.Published(sync())
	for id := range count {
		key, err := snapshot.KeyOf(0, series.ID(id), nil)
		if id == 7 != (err != nil) || err == nil && string(key) != string(gapKey(id)) {
			t.Fatal(id, err)
		}
	}
	if err := snapshot.Close(); err != nil {
		t.Fatal(err)
	}
	if err := vfs.RemoveAll(fs, "snapshot"); err != nil {
		t.Fatal(err)
	}
	sync() // what had to wait
	waiting := 0
	x.shards.each(func(_ uint16, s *shardIDs) { waiting += len(s.healed) })
	if waiting > 0 {
		t.Fatalf("%d chunks of ids wait", waiting)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}
