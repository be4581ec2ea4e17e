package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// persistAll persists what it can.
var persistAll = persistRule{table: 1, share: 1 << 20, part: 1}

func openPersisting(t testing.TB, fs vfs.FS, state State, corrupt func(error)) *Index {
	t.Helper()
	x, err := Open(Options{FS: fs, Dir: "index", State: state, Corrupt: corrupt, persist: persistAll})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return x
}

// createFrom creates the series of a list from one on.
func createFrom(t testing.TB, x *Index, list []*modelSeries, from int) {
	t.Helper()
	for i, s := range list[from:] {
		if local, err := x.Create(s.shard, s.id, s.key(), benchDay); err != nil || local != uint32(from+i) {
			t.Fatalf("create %d: %d %v", from+i, local, err)
		}
	}
}

// persisted makes a folder with series of which most are persisted, with files of several lives.
func persisted(t testing.TB, fs vfs.FS, list []*modelSeries) State {
	t.Helper()
	var state State
	for _, end := range []int{len(list) / 3, len(list) * 9 / 10, len(list)} {
		x := openPersisting(t, fs, state, noDamage(t))
		createFrom(t, x, list[:end], int(state.Count))
		if _, err := x.parts.current(); err != nil {
			t.Fatal(err)
		}
		for x.parts.mergeNext() { // a Sync leaves out what the worker is merging
		}
		var err error
		if state, err = x.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return state
}

// TestPersisted: what is persisted is mapped and not built again, answers are the same, and memory is
// what the last few series need.
func TestPersisted(t *testing.T) {
	t.Parallel()
	fs, list := vfs.NewMemFS(), largeModel(40_000)
	state := persisted(t, fs, list)
	p := state.Persisted
	if p == nil || p.Offsets != 9 || p.IDs < 64 || p.Table == nil || p.Table.Count != 40_000 || len(p.Parts) == 0 || p.Parts[len(p.Parts)-1].To != 40_000 {
		t.Fatalf("persisted is %+v", p)
	}
	x := openPersisting(t, fs, state, noDamage(t))
	s := x.Stats()
	if s.PartBytes > s.PersistedBytes/sealBlock*4 || s.OffsetBytes > 2*int64(offsetsBytes) || s.ShardBytes > 16*(idChunkEntries*4+1<<10) || s.TableBytes > 2*stripesCount*stripeSlotsMin*8 {
		t.Errorf("memory: %+v", s)
	}
	if s.PersistedBytes == 0 || s.Series != 40_000 || s.SeriesLost != 0 || s.PersistErrors != 0 {
		t.Errorf("stats %+v", s)
	}
	checkDamaged(t, x, list)
	checkQueries(t, x, list)
	var err error
	if state, err = x.Sync(); err != nil {
		t.Fatal(err)
	}
	x.Published(state)
	names, err := fs.List("index")
	if err != nil {
		t.Fatal(err)
	}
	want := append(state.Persisted.names(), "active-2026-09", "days-2026-09", idsFileName, keyFileName, offsetsFileName)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
}

// TestPersistedInUse: what a Sync has put into files counts as memory no longer, as after the next start.
func TestPersistedInUse(t *testing.T) {
	t.Parallel()
	fs, list := vfs.NewMemFS(), largeModel(40_000)
	x := openPersisting(t, fs, State{}, noDamage(t))
	createFrom(t, x, list, 0)
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	inUse := x.Stats()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	again := openPersisting(t, fs, state, noDamage(t)).Stats()
	if inUse.ShardBytes != again.ShardBytes || inUse.OffsetBytes != again.OffsetBytes {
		t.Errorf("shards have %d bytes and offsets %d, after a start %d and %d", inUse.ShardBytes, inUse.OffsetBytes, again.ShardBytes, again.OffsetBytes)
	}
}

// TestPersistedIDsUnreadable: when the disk cannot read the file of ids any more, local ids come from the keys.
func TestPersistedIDsUnreadable(t *testing.T) {
	t.Parallel()
	list, dir := largeModel(20_000), filepath.Join(t.TempDir(), "index")
	open := func(state State, corrupt func(error)) *Index {
		x, err := Open(Options{FS: vfs.OS(), Dir: dir, State: state, Corrupt: corrupt, persist: persistAll})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	told := 0
	x := open(State{}, func(error) { told++ })
	createFrom(t, x, list, 0)
	state, err := x.Sync()
	if err != nil || told > 0 {
		t.Fatal(err, told)
	}
	if err := os.Truncate(filepath.Join(dir, idsFileName), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for local, s := range list {
			if found, ok := x.Local(s.shard, s.id); !ok || found != uint32(local) {
				t.Fatalf("id %d of shard %d is %d %v, want %d", s.id, s.shard, found, ok, local)
			}
		}
		if x.Stats().Damages == 0 {
			t.Error("nothing is told of it")
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		x = open(state, func(error) {})
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPersistedFolderKept opens a folder that the first program has written which persists: with a chunk of
// offsets, 8 of ids, a table and parts. Nothing of it is built again.
func TestPersistedFolderKept(t *testing.T) {
	fs, state := keptFolder(t, "testdata/persisted")
	x := openPersisting(t, fs, state, noDamage(t))
	if p := state.Persisted; p == nil || p.Offsets != 1 || p.IDs != 8 || p.Table.Count != 4200 || p.Parts[len(p.Parts)-1].To != 4200 {
		t.Fatalf("persisted is %+v", p)
	}
	if s := x.Stats(); s.PartBytes > s.PersistedBytes/sealBlock*4 || x.table.persisted.Load() == nil {
		t.Errorf("something was built again: %+v", s)
	}
	checkDamaged(t, x, keptSeries())
	checkQueries(t, x, keptSeries())
	next, err := x.Sync()
	if err != nil || next.Persisted.Table.File != state.Persisted.Table.File || len(next.Persisted.Parts) != len(state.Persisted.Parts) {
		t.Errorf("the next state is %+v, %v", next.Persisted, err)
	}
}

// keptSeries are those of testdata/persisted.
func keptSeries() []*modelSeries {
	list := make([]*modelSeries, 4200)
	for i := range list {
		s := &modelSeries{metric: "m", tags: map[string]string{"d": strconv.Itoa(i / 5), "half": strconv.Itoa(i * 7 / 5 % 2)}, months: map[Month]bool{}, days: map[Day]bool{}}
		s.tags["_field"] = strconv.Itoa(i % 5)
		s.mark(benchDay)
		s.id = series.ID(i)
		list[i] = s
	}
	return list
}

// TestPersistedBesideOlderProgram: an older program knows nothing of what is persisted, keeps it and
// drops it from the state. What it then creates must not be mistaken for what is persisted.
func TestPersistedBesideOlderProgram(t *testing.T) {
	t.Parallel()
	fs, list := vfs.NewMemFS(), largeModel(20_000)
	persisted(t, fs, list[:12_000]) // whose manifest is lost: these series were never there
	x := openTest(t, fs, State{}, noDamage(t))
	slices.Reverse(list)
	next := map[uint16]series.ID{}
	for _, s := range list {
		s.id = next[s.shard]
		next[s.shard]++
	}
	createModel(t, x, list)
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	state.Persisted = nil
	y := openPersisting(t, fs, state, noDamage(t))
	checkDamaged(t, y, list)
	if state, err = y.Sync(); err != nil {
		t.Fatal(err)
	}
	z := openPersisting(t, fs, state, noDamage(t))
	checkDamaged(t, z, list)
	checkQueries(t, z, list)
}

// TestPersistedDamaged: files that are damaged, cut short or gone are built again from the keys.
func TestPersistedDamaged(t *testing.T) {
	t.Parallel()
	whole, list := vfs.NewMemFS(), largeModel(9_000)
	state := persisted(t, whole, list)
	files := append(state.Persisted.names(), offsetsFileName, idsFileName)
	rapid.Check(t, func(t *rapid.T) {
		fs := whole.CrashClone(vfs.CrashOptions{})
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(files), 1, 3, rapid.ID).Draw(t, "files") {
			name = path.Join("index", name)
			f, err := fs.OpenReadWrite(name)
			if err != nil {
				t.Fatal(err)
			}
			size, err := f.Size()
			if err != nil {
				t.Fatal(err)
			}
			if path.Base(name) == offsetsFileName {
				size = chunkFileHeader + int64(state.Persisted.Offsets)*(int64(offsetsBytes)+chunkHeadBytes)
			} else if path.Base(name) == idsFileName {
				size = chunkFileHeader + int64(state.Persisted.IDs)*(int64(idHeadBytes+idChunkBytes)+chunkHeadBytes)
			}
			switch at := rapid.Int64Range(0, size-1).Draw(t, "at"); rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				change(t, fs, name, func(b []byte) { b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit") })
			case 1:
				if err := f.Truncate(at); err != nil {
					t.Fatal(err)
				}
			default:
				if err := fs.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			f.Close()
		}
		x, err := Open(Options{FS: fs, Dir: "index", State: state, persist: persistAll, Corrupt: func(error) {}})
		if err != nil {
			t.Fatal(err)
		}
		check := func(x *Index) {
			if int(x.Len()) != len(list) {
				t.Fatalf("%d series", x.Len())
			}
			for local, s := range list {
				want := series.Ref{Hint: uint32(local), Shard: s.shard, ID: s.id}
				if ref, ok, err := x.Lookup(s.key()); ref != want || !ok || err != nil {
					t.Fatalf("series %d is %v %v %v", local, ref, ok, err)
				}
				if got, ok := x.Local(s.shard, s.id); !ok || got != uint32(local) {
					t.Fatalf("id %d of shard %d is series %d", s.id, s.shard, got)
				}
			}
			for _, selector := range []*scan.Selector{{MetricAny: true}, {Metric: "m", Matchers: []scan.Matcher{{Name: "half", Kind: scan.MatchEqual, Values: []string{"1"}}}}} {
				var want []uint32
				for i, s := range list {
					if s.selectedBy(selector) {
						want = append(want, uint32(i))
					}
				}
				if got, err := x.Select(context.Background(), selector, AllDays(), 0, nil); err != nil || !slices.Equal(got, want) {
					t.Fatalf("%d series, %v, want %d", len(got), err, len(want))
				}
			}
		}
		check(x)
		state, err := x.Sync()
		if err != nil || state.Persisted == nil {
			t.Fatal(state, err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		y, err := Open(Options{FS: fs, Dir: "index", State: state, persist: persistAll, Corrupt: func(err error) { t.Fatalf("damage: %v", err) }})
		if err != nil {
			t.Fatal(err)
		}
		check(y)
		if err := y.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPersistedKeysDamaged: records of persisted series are not read by a start. Whoever meets a
// damaged one makes the next start read all.
func TestPersistedKeysDamaged(t *testing.T) {
	t.Parallel()
	fs, list := vfs.NewMemFS(), largeModel(20_000)
	state := persisted(t, fs, list)
	x := openPersisting(t, fs, state, noDamage(t))
	at := x.keys.offset(5000)
	change(t, fs, "index/keys", func(b []byte) { b[at+recordKeyAt+1] ^= 1 })
	y := openPersisting(t, fs, state, noDamage(t))
	if ref, ok, err := y.Lookup(list[5000].key()); ok || err != nil {
		t.Errorf("the damaged key is %v %v", ref, err)
	}
	var damage *CorruptError
	if _, err := y.Key(5000, nil); !errors.As(err, &damage) {
		t.Errorf("the damaged key: %v", err)
	}
	state, err := y.Sync()
	if err != nil || state.Persisted != nil {
		t.Fatalf("after damage %+v counts, %v", state.Persisted, err)
	}
	z := openPersisting(t, fs, state, nil)
	if lost := checkDamaged(t, z, list); lost != 1 {
		t.Errorf("%d series are lost", lost)
	}
	if state, err = z.Sync(); err != nil || state.Persisted == nil {
		t.Fatal(state, err)
	}
	// What is lost stays lost, and may be created again.
	again := openPersisting(t, fs, state, noDamage(t))
	if s := again.Stats(); s.SeriesLost != 1 {
		t.Errorf("%d series are lost", s.SeriesLost)
	}
	if _, ok := again.Local(list[5000].shard, list[5000].id); ok {
		t.Error("the lost series has its id again")
	}
	if local, err := again.Create(list[5000].shard, list[5000].id, list[5000].key(), benchDay); err != nil || local != 20_000 {
		t.Errorf("create again: %d %v", local, err)
	}
	if state, err = again.Sync(); err != nil {
		t.Fatal(err)
	}
	last := openPersisting(t, fs, state, noDamage(t))
	if local, ok := last.Local(list[5000].shard, list[5000].id); !ok || local != 20_000 {
		t.Errorf("the series that was created again is %d %v", local, ok)
	}
}

// TestPersistWhileRead: readers find every series at every moment while files replace memory and each
// other, and mappings go. On the file system of the machine a read of one that is gone would end the test.
func TestPersistWhileRead(t *testing.T) {
	t.Parallel()
	x, err := Open(Options{FS: vfs.OS(), Dir: filepath.Join(t.TempDir(), "index"), persist: persistRule{table: 1000, share: 8, part: 500}})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	const count = 12_000
	keys := make([]series.Key, count)
	for n := range keys {
		keys[n] = benchKey(nil, n, 10)
	}
	var made, syncs atomic.Int64
	var over atomic.Bool
	synced := make(chan struct{}, 1) // tells that there was another sync; closed after the last
	var readers sync.WaitGroup
	for r := range 2 {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(r), 1))
			batch, refs := make([]series.Key, 50), make([]series.Ref, 50)
			for !over.Load() {
				n := made.Load()
				if n == 0 {
					runtime.Gosched()
					continue
				}
				for i := range batch {
					batch[i] = keys[random.Int64N(n)]
				}
				err := vfs.Guard(func() error {
					if found := x.ResolveBatch(LocalNone, batch, refs); found != len(batch) {
						return fmt.Errorf("%d of %d found", found, len(batch))
					}
					if _, ok := x.Resolve(LocalNone, batch[0]); !ok {
						return errors.New("one is not found")
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	readers.Go(func() {
		for !over.Load() {
			before := made.Load()
			got, err := x.Select(context.Background(), &scan.Selector{Metric: "m"}, AllDays(), 0, nil)
			if err != nil || int64(len(got)) < before {
				t.Errorf("%d of %d selected: %v", len(got), before, err)
				return
			}
		}
	})
	readers.Go(func() {
		defer close(synced)
		for !over.Load() {
			if _, err := x.Sync(); err != nil {
				t.Error(err)
				return
			}
			for x.parts.mergeNext() {
			}
			runtime.GC()
			syncs.Add(1)
			select {
			case synced <- struct{}{}:
			default:
			}
		}
	})
	for n, key := range keys {
		if _, err := x.Create(3, series.ID(n), key, benchDay); err != nil {
			t.Error(err)
			break
		}
		made.Store(int64(n) + 1)
		for n%1000 == 0 && syncs.Load() < int64(n/1000) && !t.Failed() {
			<-synced
		}
	}
	over.Store(true)
	readers.Wait()
	if s := x.Stats(); s.PersistErrors != 0 || s.PersistedBytes == 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestPersistFails: what cannot be written stays in memory, no Sync fails by it, and it is written when
// that works again.
func TestPersistFails(t *testing.T) {
	t.Parallel()
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpSync, vfs.OpCreate, vfs.OpMap} {
		mem, list := vfs.NewMemFS(), largeModel(9_000)
		var fail atomic.Bool
		fs := vfs.Faults(mem, func(op vfs.Op) error {
			name := path.Base(op.Name)
			own := name == offsetsFileName || name == idsFileName || strings.HasPrefix(name, tablePrefix) || strings.HasPrefix(name, partPrefix)
			if fail.Load() && own && op.Kind == kind {
				return syscall.ENOSPC
			}
			return nil
		})
		x := openPersisting(t, fs, State{}, noDamage(t))
		fail.Store(true)
		createModel(t, x, list)
		if _, err := x.parts.current(); err != nil {
			t.Fatal(err)
		}
		state, err := x.Sync()
		if err != nil {
			t.Fatal(err)
		}
		if s := x.Stats(); s.PersistErrors == 0 || state.Persisted.Table != nil || len(state.Persisted.Parts) > 0 || state.Persisted.Offsets > 0 {
			t.Errorf("kind %v: %+v, %d errors", kind, state.Persisted, s.PersistErrors)
		}
		checkDamaged(t, openPersisting(t, mem.CrashClone(vfs.CrashOptions{}), state, noDamage(t)), list)
		fail.Store(false)
		if state, err = x.Sync(); err != nil || state.Persisted.Table == nil || len(state.Persisted.Parts) == 0 {
			t.Errorf("kind %v: afterwards %+v, %v", kind, state.Persisted, err)
		}
		checkDamaged(t, x, list)
		checkDamaged(t, openPersisting(t, mem.CrashClone(vfs.CrashOptions{}), state, noDamage(t)), list)
	}
}

// FuzzPersisted opens arbitrary bytes as each of the files, with sums set right: nothing panics, and
// no table leads out of the keys.
func FuzzPersisted(f *testing.F) {
	fs, list := vfs.NewMemFS(), largeModel(300)
	state := persisted(f, fs, list)
	for _, name := range state.Persisted.names() {
		f.Add(readAll(f, fs, path.Join("index", name)))
	}
	f.Add([]byte("TMHASH\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<18 || len(b) == 0 {
			return
		}
		if len(b) > 4 {
			copy(b[len(b)-4:], sumBytes(b[:len(b)-4]))
		}
		fs := vfs.NewMemFS()
		file, err := fs.Create("file")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		const keyBytes = 1 << 16
		if table, err := openPersistedTable(fs, "file", 300, keyBytes); err == nil {
			for hash := uint64(0); hash < 1<<12; hash++ {
				p := table.probe(hash * 0x9e3779b97f4a7c15)
				for place, ok := p.next(); ok; place, ok = p.next() {
					if place+recordBytesMin > keyBytes {
						t.Fatalf("an entry leads to %d", place)
					}
				}
			}
			runtime.KeepAlive(table)
		}
		if p, err := openPart(fs, "file", 0, 300); err == nil && p.hi != 300 {
			t.Fatal(p.lo, p.hi)
		}
		ids := newChunkFile(fs, "file", idsMagic, idHeadBytes+idChunkBytes)
		if err := ids.open(1, 1, func(uint32, []byte) error { return nil }); err == nil {
			if len(ids.payload(0)) != idHeadBytes+idChunkBytes {
				t.Fatal(len(ids.payload(0)))
			}
			if err := ids.close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func readAll(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fs, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
