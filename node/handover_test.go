package node

import (
	"sync"
	"testing"
)

// TestHandoverWaitsAreCounted writes to the leader of a shard while its lead is handed over, until a write has waited for that. No
// more writes are told to be refused after a wait than have failed.
func TestHandoverWaitsAreCounted(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		c.open(name)
	}
	c.create(roles2(), names...)
	key := testKey(0)
	shard := key.Shard(testShards)
	failed, atMs := int64(0), int64(1_700_000_000_000)
	waits, refused := int64(0), int64(0)
	c.await("a write to wait for a handover", func() bool {
		for i, name := range names[:2] {
			leader, errs := c.reach("", name), [8]error{}
			var writes sync.WaitGroup
			for n := range errs {
				w := &testWriter{node: leader}
				w.add(key, atMs+int64(n), 1)
				writes.Go(func() { errs[n] = w.send(t.Context()) })
			}
			_ = leader.TransferLeader(shard, names[1-i]) // it does not lead, or is busy: the next one may
			writes.Wait()
			atMs += int64(len(errs))
			for _, err := range errs {
				if err != nil {
					failed++
				}
			}
		}
		waits, refused = 0, 0
		for _, name := range names[:2] {
			f := c.reach("", name).loop.figures.Load()
			waits, refused = waits+f.HandoverWaits, refused+f.HandoverRefused
			if f.HandoverWaits == 0 && (f.HandoverWaitMs > 0 || f.HandoverRefused > 0) {
				t.Fatalf("figures of waits without a wait: %+v", f)
			}
		}
		return waits > 0
	})
	if refused > failed {
		t.Errorf("%d writes were refused after %d waits, but only %d have failed", refused, waits, failed)
	}
	t.Logf("%d waits, %d refused of %d that failed", waits, refused, failed)
}
