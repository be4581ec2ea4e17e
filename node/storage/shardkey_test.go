package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

func openSharded(t *testing.T, key series.ShardKey) *Engine {
	t.Helper()
	e, err := Open(Options{FS: vfs.NewMemFS(), Dir: "data", Shards: 4, ExtentBytes: extentBytesSmall, ShardKey: key, SyncLog: func() error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// TestInstallUnderAShardKey installs a shard into a folder that has adopted the key under
// which its series were placed, and into folders with another one or none.
func TestInstallUnderAShardKey(t *testing.T) {
	key := series.ShardKey{1, 2, 3}
	from := openSharded(t, key)
	var batch series.BatchEncoder
	for i, placed := 0, 0; placed < 20; i++ {
		k := series.AppendKey(nil, nil, fmt.Appendf(nil, "m%d", i), nil)
		if from.Sharding().Of(k) == 2 {
			batch.Append(batch.Define(k), 1_700_000_000_000, 1, 0)
			placed++
		}
	}
	encoded := batch.AppendTo(nil)
	body := append(entry.AppendBatchHeader(entry.AppendTime(nil, 0), series.BatchID{}, len(encoded)), encoded...)
	if err := from.Apply(0, &entry.Entry{Kind: entry.Samples, Shard: 2, Index: 1, Body: body}); err != nil {
		t.Fatal(err)
	}
	x, err := from.ExportShard(2)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for _, test := range []struct {
		adopted series.ShardKey
		want    error
	}{{key, nil}, {series.ShardKey{9}, transfer.ErrStream}, {series.ShardKey{}, transfer.ErrStream}} {
		to := openSharded(t, series.ShardKey{})
		if err := to.AdoptShardKey(test.adopted); err != nil {
			t.Fatal(err)
		}
		if _, err := to.InstallShard(context.Background(), 2, 0, x.OpenAt(0)); !errors.Is(err, test.want) {
			t.Errorf("key %v: %v, want %v", test.adopted, err, test.want)
		}
	}
	if err := from.AdoptShardKey(series.ShardKey{9}); !errors.Is(err, ErrShardKey) {
		t.Errorf("a folder with a key of its own took another one: %v", err)
	}
}
