package storage

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestFilesOfTheIndexFollowTheManifest: files of the index that the manifest names stay while checkpoints fail, and go
// when another one is published.
func TestFilesOfTheIndexFollowTheManifest(t *testing.T) {
	fs, failing := vfs.NewMemFS(), false
	points, err := failpoint.Parse(manifest.FailPublish+"=error", Failpoints())
	if err != nil {
		t.Fatal(err)
	}
	open := func(fs *vfs.MemFS) *Engine {
		o := Options{FS: fs, Dir: "data", Shards: 1, ExtentBytes: 64 << 10, GenerationBytesMax: 1 << 20, PersistSeriesMin: 4, SyncLog: func() error { return nil }}
		if failing {
			o.Failpoints = points
		}
		e, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	next := uint64(0)
	write := func(e *Engine) {
		var batch series.BatchEncoder
		for i := range 40 {
			batch.Append(batch.Define(series.AppendKey(nil, nil, fmt.Appendf(nil, "m%d_%d", next, i), nil)), 1_700_000_000_000, 1, 0)
		}
		encoded := batch.AppendTo(nil)
		next++
		body := append(entry.AppendBatchHeader(entry.AppendTime(nil, 0), series.BatchID{}, len(encoded)), encoded...)
		if err := e.Apply(1, &entry.Entry{Kind: entry.Samples, Index: next, Body: body}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.NamesOf(nil).Count(t.Context(), ""); err != nil { // makes a part of the new series
			t.Fatal(err)
		}
	}
	checkpoint := func(e *Engine) error {
		return e.Checkpoint(Checkpoint{Position: next, Applied: []uint64{next}, SealAll: true})
	}
	files := func(fs *vfs.MemFS) (names []string) {
		list, err := fs.List(path.Join("data", dirIndex))
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(list, func(name string) bool {
			return !strings.HasPrefix(name, "table-") && !strings.HasPrefix(name, "postings-")
		})
	}
	e := open(fs)
	for range 6 {
		write(e)
		if err := checkpoint(e); err != nil {
			t.Fatal(err)
		}
		if got := files(fs); len(got) > 1+int(next) || len(got) < 2 {
			t.Errorf("after %d checkpoints there are %v", next, got)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	failing = true
	e = open(fs)
	for range 4 {
		write(e)
		if err := checkpoint(e); !errors.Is(err, failpoint.ErrHit) {
			t.Fatal(err)
		}
	}
	failing = false
	again := open(fs.CrashClone(vfs.CrashOptions{}))
	if s := again.Stats(); s.Corruptions != 0 || s.Index.Series != 240 || s.Index.PersistedBytes == 0 || s.Index.TableLoad != 0 {
		t.Errorf("after failed checkpoints and a power cut: %+v", s.Index)
	}
	for _, e := range []*Engine{e, again} {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
