package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestResolveWithPartOfTheTableLost cuts the file of keys under a running node:
// of one batch, the series whose keys can be read are found, the others count as
// unknown.
func TestResolveWithPartOfTheTableLost(t *testing.T) {
	o := testOptions(vfs.OS(), SyncOff)
	o.DataDir = filepath.Join(t.TempDir(), "data")
	n := mustOpen(t, o)
	defer n.Close()
	w := &testWriter{node: n}
	keys := make([]series.Key, 20_000) // the last ones of the file are still in memory
	for i := range keys {
		keys[i] = testKey(i)
		w.add(keys[i], 1_700_000_000_000, 1)
	}
	if err := w.send(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := make([]series.Ref, len(keys))
	n.Resolve(series.HintNone, keys, want)
	for i, ref := range want {
		if one, known, err := n.LookupSeries(keys[i]); err != nil || !known || one != ref {
			t.Fatalf("%v is %v in a batch and %v on its own, %v", keys[i], ref, one, err)
		}
	}

	names, err := filepath.Glob(filepath.Join(o.DataDir, "*", "keys"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	name := names[0]
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	got := make([]series.Ref, len(keys))
	n.Resolve(series.HintNone, keys, got)
	found := 0
	for i, ref := range got {
		switch ref {
		case want[i]:
			found++
		case series.Ref{Hint: series.HintNone}:
		default:
			t.Fatalf("%v: got %v, want %v", keys[i], ref, want[i])
		}
	}
	if found == 0 || found == len(keys) {
		t.Errorf("%d of %d series found, of which some cannot be read", found, len(keys))
	}
	if err := os.Truncate(name, before.Size()); err != nil {
		t.Fatal(err)
	}
}
