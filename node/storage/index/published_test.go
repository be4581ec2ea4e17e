package index

import (
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// roomFS is a file system with so much room.
type roomFS struct {
	vfs.FS
	free atomic.Int64
}

func (f *roomFS) Free(string) (int64, error) { return f.free.Load(), nil }

// TestPersistWithoutRoom: files that would take what is left to others are not begun, no Sync fails by it, and they are
// written when there is room.
func TestPersistWithoutRoom(t *testing.T) {
	t.Parallel()
	const reserve = 1 << 20
	mem, list := vfs.NewMemFS(), largeModel(9_000)
	var begun atomic.Int64
	fs := &roomFS{FS: vfs.Faults(mem, func(op vfs.Op) error {
		name := path.Base(op.Name)
		if op.Kind == vfs.OpCreate && (name == offsetsFileName || name == idsFileName || strings.HasPrefix(name, tablePrefix) || strings.HasPrefix(name, partPrefix)) {
			begun.Add(1)
		}
		return nil
	})}
	x, err := Open(Options{FS: fs, Dir: "index", persist: persistAll, DiskReserve: reserve, Corrupt: noDamage(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	createModel(t, x, list)
	if err := settle(x); err != nil {
		t.Fatal(err)
	}
	for _, free := range []int64{0, reserve, reserve + 2000} {
		fs.free.Store(free)
		state, err := x.Sync()
		if err != nil {
			t.Fatal(err)
		}
		if s := x.Stats(); begun.Load() > 0 || s.PersistErrors == 0 || s.PersistedBytes > 0 || state.Persisted.Table != nil {
			t.Fatalf("with %d bytes free %d files were begun, %+v", free, begun.Load(), s)
		}
		checkDamaged(t, openPersisting(t, mem.CrashClone(vfs.CrashOptions{}), state, noDamage(t)), list)
	}
	fs.free.Store(reserve + 4<<20)
	state, err := x.Sync()
	if err != nil || state.Persisted.Table == nil || len(state.Persisted.Parts) == 0 || state.Persisted.Offsets == 0 || state.Persisted.IDs == 0 {
		t.Fatalf("with room: %+v, %v", state.Persisted, err)
	}
	checkQueries(t, x, list)
}

// TestFileSizesAreKnown: what is asked of the disk is at least what is written, and not much more.
func TestFileSizesAreKnown(t *testing.T) {
	t.Parallel()
	fs, list := vfs.NewMemFS(), largeModel(9_000)
	state := persisted(t, fs, list)
	x := openPersisting(t, fs, state, noDamage(t))
	check := func(name string, want int64) {
		info, err := fs.Stat(path.Join("index", name))
		if err != nil || info.Size > want || info.Size < want*9/10-4096 {
			t.Errorf("%s has %d bytes, taken to be %d, %v", name, info.Size, want, err)
		}
	}
	check(tableFile(state.Persisted.Table.File), persistedTableBytes(state.Persisted.Table.Count))
	for _, p := range *x.parts.parts.Load() {
		check(partFile(p.file), p.fileBytes())
	}
}

// TestPublishedFilesStay: the files of the state that the manifest has stay, however many later ones it does not get.
func TestPublishedFilesStay(t *testing.T) {
	t.Parallel()
	fs, list := vfs.NewMemFS(), largeModel(9_000)
	x := openPersisting(t, fs, State{}, noDamage(t))
	sync := func(end int) State {
		createFrom(t, x, list[:end], int(x.Len()))
		if err := settle(x); err != nil {
			t.Fatal(err)
		}
		state, err := x.Sync()
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	published := sync(3_000)
	x.Published(published)
	last := published
	for n := 4_000; n <= 9_000; n += 1_000 { // of none of which the manifest hears
		last = sync(n)
		if slices.Contains(last.Persisted.names(), published.Persisted.names()[0]) {
			t.Fatal("nothing takes the place of what is published")
		}
		y := openPersisting(t, fs.CrashClone(vfs.CrashOptions{}), published, noDamage(t))
		if y.table.persisted.Load() == nil || slices.ContainsFunc((*y.parts.parts.Load())[:1], func(p *part) bool { return p.seal == nil }) {
			t.Fatalf("after %d series the files of the manifest are gone", n)
		}
		checkDamaged(t, y, list[:3_000])
	}
	x.Published(last)
	var left []string
	names, err := fs.List("index")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, tablePrefix) || strings.HasPrefix(name, partPrefix) {
			left = append(left, name)
		}
	}
	want := last.Persisted.names()
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("files %v are left, want %v", left, want)
	}
}
