package node

import (
	"context"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestKilledOften: a node that is killed more often than it makes two checkpoints replays no more of its log after
// many kills than after a few.
func TestKilledOften(t *testing.T) {
	const checkpointBytes = 64 << 10
	fs := vfs.NewMemFS()
	open := func() *Node {
		o := testOptions(fs, SyncOff)
		o.CheckpointBytes = checkpointBytes
		return mustOpen(t, o)
	}
	n := open()
	defer func() { n.Close() }()
	m := model{}
	now := int64(1_700_000_000_000)
	for kill := range 20 {
		for begin := n.log.End(); n.log.End() < begin+checkpointBytes/2; {
			w := &testWriter{node: n}
			for i := range 200 {
				now += 10
				w.add(testKey(i%40), now, float64(i))
				m.put(testKey(i%40), now, float64(i))
			}
			if err := w.send(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if n.logSinceCheckpoint() >= checkpointBytes { // maintenance may have been faster
			if err := n.checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
		after := fs.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		fs = after
		n = open()
		if got := n.Recovery().Bytes; got > 3*checkpointBytes {
			t.Fatalf("after kill %d %d bytes are replayed, though checkpoints come with each %d", kill, got, checkpointBytes)
		}
	}
	if diff := differences(m, contents(t, n)); len(diff) > 0 {
		t.Errorf("%q", diff)
	}
}
