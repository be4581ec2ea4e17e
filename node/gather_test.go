package node

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Writers that are ready to run at the same time share a round.
func TestReadyWritersShareARound(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	n := mustOpen(t, testOptions(vfs.NewMemFS(), SyncOff))
	defer n.Close()
	const writers, repeats = 32, 8
	before := n.loop.stats.rounds.Load()
	for range repeats {
		var done sync.WaitGroup
		for i := range writers {
			frame := frameOf(uint16(i % testShards))
			done.Go(func() {
				if _, err := n.Write(context.Background(), frame); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
	}
	if rounds := n.loop.stats.rounds.Load() - before; rounds > writers*repeats/4 {
		t.Errorf("%d writes went to the log in %d rounds", writers*repeats, rounds)
	}
}

// What comes while the log is synced shares the next sync, however long that takes: groups
// grow with the latency of the disk.
func TestWritesGatherDuringASync(t *testing.T) {
	gate := &syncGate{}
	n := mustOpen(t, testOptions(vfs.Faults(vfs.NewMemFS(), gate.rule), SyncAlways))
	defer n.Close()
	if err := <-startWrite(n, 0); err != nil {
		t.Fatal(err)
	}
	shut := make(chan struct{})
	gate.set(shut, nil)
	before := n.log.Stats()
	answers := []<-chan error{startWrite(n, 0)}
	for n.log.Stats().Writes == before.Writes { // the loop is in the sync, or on its way there
		runtime.Gosched()
	}
	const writers = 100
	for i := range writers {
		answers = append(answers, startWrite(n, uint16(i%testShards)))
	}
	for waiting := 0; waiting < writers; runtime.Gosched() {
		n.loop.queue.mu.Lock()
		waiting = len(n.loop.queue.mu.writes)
		n.loop.queue.mu.Unlock()
	}
	for _, answer := range answers {
		select {
		case err := <-answer:
			t.Fatalf("a write is answered before it is synced: %v", err)
		default:
		}
	}
	gate.set(nil, nil)
	close(shut)
	for _, answer := range answers {
		if err := <-answer; err != nil {
			t.Fatal(err)
		}
	}
	if syncs := n.log.Stats().Syncs - before.Syncs; syncs != 2 {
		t.Errorf("%d writes took %d syncs", writers+1, syncs)
	}
}
