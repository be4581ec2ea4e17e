package index

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// FuzzForgotten reads what may be the body of a file of what is forgotten.
func FuzzForgotten(f *testing.F) {
	some := forgets{shards: map[uint16]*Forgotten{}, twins: map[uint32]struct{}{3: {}, 900: {}}}
	for id := range uint32(70) {
		some.ofLocked(2).set.set(id * id)
	}
	some.ofLocked(2).recent[9] = 17
	some.ofLocked(9).set.set(0)
	f.Add(some.encodeLocked())
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255})
	some.dropped.set(999)
	for local := range uint32(bitChunkBits + 3) {
		some.dropped.set(8*bitChunkBits + local)
	}
	some.holes = map[uint32]struct{}{7: {}, 9: {}}
	f.Add(some.appendDroppedLocked(some.encodeLocked()))
	f.Fuzz(func(t *testing.T, body []byte) {
		fuzzForgotten(t, wholeVersion, body)
		fuzzForgotten(t, forgottenVersionDropped, body)
	})
}

func fuzzForgotten(t *testing.T, version uint32, body []byte) {
	state, applied := &State{Count: 1000, Next: []uint32{0, 0, 5000, 0, 0, 0, 0, 0, 0, 3}}, []uint64{0, 0, 16}
	read := forgets{shards: map[uint16]*Forgotten{}, twins: map[uint32]struct{}{}, holes: map[uint32]struct{}{}}
	if err := read.decode("forgotten", version, body, state, applied); err != nil {
		var damaged *CorruptError
		if !errors.As(err, &damaged) {
			t.Fatal(err)
		}
		return
	}
	again := forgets{shards: map[uint16]*Forgotten{}, twins: map[uint32]struct{}{}, holes: map[uint32]struct{}{}}
	body = read.encodeLocked()
	if version == forgottenVersionDropped {
		body = read.appendDroppedLocked(body)
	}
	if err := again.decode("forgotten", version, body, state, applied); err != nil {
		t.Fatal(err)
	}
	if a, b := read.dropped.list(), again.dropped.list(); !slices.Equal(a, b) || !maps.Equal(read.holes, again.holes) {
		t.Fatalf("%v and %v dropped became %v and %v", a, read.holes, b, again.holes)
	}
	for shard, of := range read.shards {
		ids := of.IDs()
		if len(ids) != int(of.set.ones.Load()) || !slices.Equal(ids, again.of(shard).IDs()) || !maps.Equal(of.later, again.of(shard).later) {
			t.Fatalf("shard %d: %v became %v", shard, ids, again.of(shard).IDs())
		}
		if int(shard) >= len(state.Next) && len(ids) > 0 || len(ids) > 0 && ids[len(ids)-1] >= state.Next[shard] {
			t.Fatalf("shard %d has %v", shard, ids)
		}
	}
	if !maps.Equal(read.twins, again.twins) {
		t.Fatalf("%v became %v", read.twins, again.twins)
	}
}

// TestForgottenIsNeeded: a table that does not know what is forgotten would give other ids, and is not opened.
func TestForgottenIsNeeded(t *testing.T) {
	fs := vfs.NewMemFS()
	open := func(state State) (*Index, error) {
		return Open(Options{FS: fs, Dir: "index", State: state, Applied: []uint64{5}})
	}
	x, err := open(State{})
	if err != nil {
		t.Fatal(err)
	}
	key := (&modelSeries{metric: "m", tags: map[string]string{"a": "b"}}).key()
	if _, err := x.Create(0, 0, key, 0); err != nil {
		t.Fatal(err)
	}
	if err := x.Forget(0, []uint32{0}, 5); err != nil {
		t.Fatal(err)
	}
	if _, known, err := x.Lookup(key); known || err != nil {
		t.Fatal(known, err)
	}
	if _, err := x.Create(0, 1, key, 0); err != nil {
		t.Fatal(err)
	}
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	for applied, want := range []uint32{4: 0, 5: 1} {
		if applied < 4 {
			continue
		}
		x, err := Open(Options{FS: fs, Dir: "index", State: state, Applied: []uint64{uint64(applied)}})
		if err != nil {
			t.Fatal(err)
		}
		if ref, known, err := x.Lookup(key); err != nil || !known || uint32(ref.ID) != want {
			t.Fatalf("after entry %d: id %d (%v), %v; want %d", applied, ref.ID, known, err, want)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	names := state.Forgotten.names()
	b, err := vfs.ReadFile(fs, "index/"+names[0])
	if err != nil {
		t.Fatal(err)
	}
	write := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := vfs.WriteFile(fs, "index/"+name, b); err != nil {
				t.Fatal(err)
			}
		}
	}
	for at := range b {
		b[at] ^= 1
		write(names...)
		if x, err := open(state); err == nil {
			t.Fatal("byte", at, x.Close())
		}
		b[at] ^= 1
	}
	for i := range names { // one of them is enough, and both are there again after the next Sync
		write(names...)
		b[20] ^= 1
		write(names[i])
		b[20] ^= 1
		x, err := open(state)
		if err != nil {
			t.Fatal(err)
		}
		if ref, known, err := x.Lookup(key); err != nil || !known || ref.ID != 1 {
			t.Fatalf("id %d (%v), %v", ref.ID, known, err)
		}
		again, err := x.Sync()
		if err != nil || again.Forgotten.File == state.Forgotten.File || again.Forgotten.Copy == state.Forgotten.Copy {
			t.Fatalf("%v became %v, %v", state.Forgotten, again.Forgotten, err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForgottenBeginsAgain: a replica whose log is applied from its first entry on, in a folder that has the shard's
// series from before, gives each key the id that it had at that entry, also after a restart in between.
func TestForgottenBeginsAgain(t *testing.T) {
	for _, persistMin := range []int{0, 1} { // the hash table is made again, or mapped
		forgottenBeginsAgain(t, persistMin)
	}
}

func forgottenBeginsAgain(t *testing.T, persistMin int) {
	fs := vfs.NewMemFS()
	x, err := Open(Options{FS: fs, Dir: "index", PersistSeriesMin: persistMin})
	if err != nil {
		t.Fatal(err)
	}
	key := (&modelSeries{metric: "m", tags: map[string]string{"a": "b"}}).key()
	means := func(want uint32) {
		t.Helper()
		if ref, known, err := x.Lookup(key); err != nil || !known || uint32(ref.ID) != want {
			t.Fatalf("id %d (%v), %v; want %d", ref.ID, known, err, want)
		}
	}
	restart := func(applied uint64) {
		t.Helper()
		if _, err := x.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := x.FinalizeForgotten([]uint64{applied}); err != nil {
			t.Fatal(err)
		}
		state, err := x.Sync()
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		corrupt := func(err error) { t.Fatal(err) }
		if x, err = Open(Options{FS: fs, Dir: "index", State: state, Applied: []uint64{applied}, Corrupt: corrupt, PersistSeriesMin: persistMin}); err != nil {
			t.Fatal(err)
		}
	}
	const ids = 3
	for id := range uint32(ids) {
		if _, err := x.Create(0, series.ID(id), key, 0); err != nil {
			t.Fatal(err)
		}
		if err := x.Forget(0, []uint32{id}, uint64(id)+1); err != nil {
			t.Fatal(err)
		}
	}
	restart(ids) // all is settled
	for round := range 2 {
		if err := x.ReplaceForgotten(0, nil); err != nil {
			t.Fatal(err)
		}
		for id := range uint32(ids) {
			means(id)
			if round > 0 {
				restart(uint64(id))
				means(id)
			}
			if err := x.Forget(0, []uint32{id}, uint64(id)+1); err != nil {
				t.Fatal(err)
			}
		}
		restart(ids)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}
