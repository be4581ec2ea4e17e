package index

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// openOnDisk opens the index of rotModel in a folder whose mappings fault and are not to be written.
func openOnDisk(t *testing.T) (x *Index, list []*modelSeries, dir string) {
	t.Helper()
	m := rotModelOnce()
	dir = filepath.Join(t.TempDir(), "index")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	names, err := m.fs.List("index")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), readAll(t, m.fs, path.Join("index", name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if x, err = Open(Options{FS: vfs.OS(), Dir: dir, State: m.state, persist: persistAll}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x, m.list, dir
}

func flipAll(b []byte) {
	for i := chunkFileHeader; i < len(b); i++ {
		b[i] ^= 1
	}
}

// TestTableDroppedWhileKeysAreUnreadable: no series counts as unknown because its key could not be read for a
// moment, and no file is written without it.
func TestTableDroppedWhileKeysAreUnreadable(t *testing.T) {
	t.Parallel()
	x, list, dir := openOnDisk(t)
	if err := os.Truncate(x.table.persisted.Load().held.mapping.Name(), 0); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(dir, keyFileName)
	whole, err := os.ReadFile(keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(keys, blockBytes/2); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if ref, known, err := x.Lookup(benchKey(nil, i, 10)); err == nil {
			t.Fatalf("a key may be among those that cannot be read, and is %v, %t", ref, known)
		}
	}
	f, err := os.OpenFile(keys, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for i, s := range list {
		if ref, known, err := x.Lookup(s.key()); err != nil || !known || ref.Hint != uint32(i) {
			t.Fatalf("series %d is %v, %t, %v", i, ref, known, err)
		}
	}
	if _, err := x.Sync(); err != nil {
		t.Fatal(err)
	}
	if table := x.table.persisted.Load(); table == nil || table.entries != len(list) {
		t.Errorf("the table is %v", table)
	}
}

// TestEntriesInTableAndMemory: a table that reads as before again is merged with what was put in memory meanwhile.
func TestEntriesInTableAndMemory(t *testing.T) {
	t.Parallel()
	if list := mergeEntries([]uint64{1, 3, 5, 9}, []uint64{3, 4, 5}); !slices.Equal(list, []uint64{1, 3, 4, 5, 9}) {
		t.Error(list)
	}
}

// TestRememberedValuesRot: what an expression has picked is remembered by where it is in the mapped part, which
// may be read otherwise the next time.
func TestRememberedValuesRot(t *testing.T) {
	t.Parallel()
	m := rotModelOnce()
	fs := m.fs.CrashClone(vfs.CrashOptions{})
	x := openPersisting(t, fs, m.state, nil)
	selector := &scan.Selector{Metric: "m", Matchers: []scan.Matcher{{Name: "device", Kind: scan.MatchRegexp, Values: []string{"d_[0-9]*5"}}}}
	ask := func() []uint32 {
		t.Helper()
		list, err := x.Select(context.Background(), selector, AllDays(), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	want := ask()
	for _, p := range *x.parts.parts.Load() {
		if p.seal == nil || len(p.memo.entries) == 0 {
			continue // it is being merged
		}
		c := checked{seal: p.seal}
		at := wholeHeader + c.place(p.memo.entries[0].postings[0].body)
		change(t, fs, p.held.mapping.Name(), func(b []byte) { b[at] ^= 1 })
		if got := ask(); !slices.Equal(got, want) {
			t.Fatalf("%d series, want %d", len(got), len(want))
		}
	}
	if x.Stats().Rebuilt == 0 {
		t.Error("nothing was built again")
	}
}

// TestRelearnedIDsWithoutKeys: ids that are learned again while a key is damaged lack one. They are not mapped then:
// whoever creates the series again under its old id writes there.
func TestRelearnedIDsWithoutKeys(t *testing.T) {
	t.Parallel()
	x, list, dir := openOnDisk(t)
	victim := list[0]
	change(t, vfs.OS(), filepath.Join(dir, keyFileName), func(b []byte) { b[x.keys.offset(0)+recordKeyAt+3] ^= 1 })
	change(t, vfs.OS(), filepath.Join(dir, idsFileName), flipAll)
	if local, ok := x.Local(victim.shard, victim.id); ok {
		t.Fatalf("it is series %d", local)
	}
	if state, err := x.Sync(); err != nil || state.Persisted != nil {
		t.Error(state.Persisted, err)
	}
	if _, err := x.Create(victim.shard, victim.id, victim.key(), benchDay); err != nil {
		t.Fatal(err)
	}
	if local, ok := x.Local(victim.shard, victim.id); !ok || local != uint32(len(list)) {
		t.Errorf("it is series %d, %t", local, ok)
	}
}

// TestLocalWhileKeysAreUnreadable: ids that do not read as before are no answer, though they cannot be learned again.
func TestLocalWhileKeysAreUnreadable(t *testing.T) {
	t.Parallel()
	x, list, dir := openOnDisk(t)
	change(t, vfs.OS(), filepath.Join(dir, idsFileName), flipAll)
	if err := os.Truncate(filepath.Join(dir, keyFileName), 0); err != nil {
		t.Fatal(err)
	}
	if local, ok := x.Local(list[0].shard, list[0].id); ok && local != 0 {
		t.Fatalf("series 0 is series %d", local)
	}
}

// TestPlacesHealedWhileKeysAreUnreadable: no series counts as lost because its key could not be read for a moment.
func TestPlacesHealedWhileKeysAreUnreadable(t *testing.T) {
	t.Parallel()
	x, list, dir := openOnDisk(t)
	keys := filepath.Join(dir, keyFileName)
	whole, err := os.ReadFile(keys)
	if err != nil {
		t.Fatal(err)
	}
	change(t, vfs.OS(), filepath.Join(dir, offsetsFileName), flipAll)
	if err := os.Truncate(keys, blockBytes/2); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(list); i += 1000 {
		if key, err := x.Key(uint32(i), nil); err == nil && !bytes.Equal(key, list[i].key()) || errors.Is(err, ErrUnknown) {
			t.Fatalf("series %d: %s, %v", i, key, err)
		}
	}
	if err := os.WriteFile(keys, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if key, err := x.Key(uint32(i), nil); err != nil || !bytes.Equal(key, list[i].key()) {
			t.Fatalf("series %d: %s, %v", i, key, err)
		}
	}
}

// TestHealBesideSync: a chunk of places that is healed when a Sync has begun is written as it was healed.
func TestHealBesideSync(t *testing.T) {
	t.Parallel()
	m := rotModelOnce()
	fs := m.fs.CrashClone(vfs.CrashOptions{})
	x := openPersisting(t, fs, m.state, nil)
	change(t, fs, path.Join("index", offsetsFileName), func(b []byte) { b[chunkFileHeader+chunkHeadBytes+offsetsDeltaAt+4*7] ^= 1 })
	found, _ := x.keys.findOffsets(0, x.keys.offsetsSealed(0).lost)
	x.keys.mu.Lock()
	done := make(chan error)
	go func() { done <- x.persistOffsets(x.Len()) }()
	for !waitsForLock("persistOffsets") {
		time.Sleep(time.Millisecond)
	}
	// As heal does that has taken the lock first.
	chunks, seals := slices.Clone(*x.keys.offsets.Load()), slices.Clone(*x.keys.seals.Load())
	chunks[0], seals[0] = found, nil
	x.keys.offsets.Store(&chunks)
	x.keys.seals.Store(&seals)
	x.keys.mu.healed = append(x.keys.mu.healed, 0)
	x.keys.mu.Unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if key, err := x.Key(7, nil); err != nil || !bytes.Equal(key, m.list[7].key()) {
		t.Fatal(key, err)
	}
}

// waitsForLock reports whether a goroutine waits for a lock in a function.
func waitsForLock(function string) bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return slices.ContainsFunc(strings.Split(string(stacks), "\n\n"), func(one string) bool {
		return strings.Contains(one, "[sync.Mutex.Lock") && strings.Contains(one, function)
	})
}
