package shardfile

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

func testKind() Kind { return Kind{Prefix: "forms-", Magic: "TMTEST\x01", What: "forms"} }

func FuzzDecode(f *testing.F) {
	b := testKind().Encode([][]byte{nil, []byte("a"), nil, []byte("bcd")})
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		forms, err := testKind().Decode(b, 4)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		again, err := testKind().Decode(testKind().Encode(forms), 4)
		if err != nil || !slices.EqualFunc(again, forms, bytes.Equal) {
			t.Fatalf("%q became %q, %v", forms, again, err)
		}
	})
}

// TestFiles stages files: one counts once it is kept, others are removed at the start.
func TestFiles(t *testing.T) {
	fsys := vfs.NewMemFS()
	if err := fsys.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	f, err := Open(fsys, "d", testKind(), "")
	if err != nil {
		t.Fatal(err)
	}
	stage := func(entry uint64, form string) Staged {
		s, err := f.Stage([]uint64{0, entry}, func(shard int) []byte { return []byte(form)[:len(form)*shard] })
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := stage(0, ""); s.Name != "" {
		t.Fatalf("nothing is in %s", s.Name)
	}
	first := stage(1, "one")
	if err := f.Keep(first); err != nil {
		t.Fatal(err)
	}
	if s := stage(1, "not asked for"); s.Name != first.Name {
		t.Fatalf("another file %s for the same entries", s.Name)
	}
	second := stage(2, "two") // never kept: no manifest names it
	if second.Name == first.Name {
		t.Fatal("a file is written over")
	}
	again, err := Open(fsys, "d", testKind(), first.Name)
	if err != nil {
		t.Fatal(err)
	}
	forms, damage, err := again.Read(2)
	if err != nil || damage != nil || string(forms[1]) != "one" || len(forms[0]) > 0 {
		t.Fatalf("%q, %v, %v", forms, damage, err)
	}
	if names, err := fsys.List("d"); err != nil || !slices.Equal(names, []string{first.Name}) {
		t.Fatalf("%v, %v", names, err)
	}
	if _, damage, err := again.Read(1); damage == nil || err != nil {
		t.Fatalf("a file of more shards: %v, %v", damage, err)
	}
}
