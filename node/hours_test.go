package node

import (
	"errors"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestHoursWithoutRaw: hours are refused where there is no raw, and leave the folder as programs of before read it.
func TestHoursWithoutRaw(t *testing.T) {
	t.Parallel()
	n := mustOpen(t, testOptions(vfs.NewMemFS(), SyncOff))
	key := thinKeys()[0]
	var e series.BatchEncoder
	e.SetHours()
	e.Append(e.Define(key), 19_700*dayMs, 1, 0)
	_, err := n.Write(t.Context(), &series.Frame{Parts: []series.Part{{Shard: key.Shard(testShards), Batch: e.AppendTo(nil)}}, Points: 1})
	if !errors.Is(err, series.ErrBatch) {
		t.Errorf("the error is %v, want ErrBatch", err)
	}
	if n.engine.TakesHours() {
		t.Error("the folder has got another format")
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
