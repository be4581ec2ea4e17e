package index

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestKeysRotWhileOpen: a record that was intact when the index was opened may be
// damaged when the kernel reads it from the disk again. Then it is an error, or
// unknown, and never another series.
func TestKeysRotWhileOpen(t *testing.T) {
	list := largeModel(6000)
	fs, dir := vfs.OS(), filepath.Join(t.TempDir(), "index")
	x, err := Open(Options{FS: fs, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	createModel(t, x, list)
	if _, err := x.Sync(); err != nil {
		t.Fatal(err)
	}
	disk, err := fs.OpenReadWrite(filepath.Join(dir, keyFileName))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()

	last := uint32(0) // of the first block, which is mapped
	for x.keys.offset(last+1) < blockBytes {
		last++
	}
	if last > 5990 {
		t.Fatal("no block is mapped")
	}
	for _, local := range []uint32{1, 2, 77, last} {
		start, record := x.keys.offset(local), make([]byte, recordKeyAt+len(list[local].key()))
		if _, err := disk.ReadAt(record, start); err != nil {
			t.Fatal(err)
		}
		for i := range record {
			for _, flip := range []byte{1, 0x80, 0xff} {
				rotten := bytes.Clone(record)
				rotten[i] ^= flip
				if _, err := disk.WriteAt(rotten, start); err != nil {
					t.Fatal(err)
				}
				checkRotten(t, x, list[local], local)
			}
		}
		if _, err := disk.WriteAt(record, start); err != nil {
			t.Fatal(err)
		}
		if key, err := x.Key(local, nil); err != nil || !bytes.Equal(key, list[local].key()) {
			t.Fatal(key, err)
		}
	}
}

func checkRotten(t *testing.T, x *Index, s *modelSeries, local uint32) {
	t.Helper()
	if key, err := x.Key(local, nil); err == nil {
		t.Fatalf("series %d has key %s", local, key)
	}
	if refs, err := x.Refs([]uint32{local}, nil); err == nil {
		t.Fatalf("series %d is %+v", local, refs)
	}
	ref, known, err := x.Lookup(s.key())
	if err != nil || known && (ref.Hint != local || ref.Shard != s.shard || ref.ID != s.id) {
		t.Fatalf("series %d was looked up as %+v: %v", local, ref, err)
	}
	// The rare value picks few series, whose keys are then tried.
	_, err = x.Select(context.Background(), &scan.Selector{Metric: s.metric, Matchers: []scan.Matcher{
		{Name: "half", Kind: scan.MatchEqual, Values: []string{s.tags["half"]}},
		{Name: "row", Kind: scan.MatchEqual, Values: []string{s.tags["row"]}},
		{Name: "device", Kind: scan.MatchRegexp, Values: []string{"d_[0-9]*[02468]"}},
	}}, AllDays(), 0, nil)
	if err == nil {
		t.Fatal("a rotten key was tried without a word")
	}
}
