package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// syncGate holds up the syncs of the log, or fails them, while it is shut.
type syncGate struct {
	mu   sync.Mutex
	shut chan struct{} // nil: open
	err  error
}

func (g *syncGate) rule(op vfs.Op) error {
	if op.Kind != vfs.OpSync || !strings.Contains(op.Name, "log") {
		return nil
	}
	g.mu.Lock()
	shut, err := g.shut, g.err
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
	return err
}

func (g *syncGate) set(shut chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.err = shut, err
}

// addLearner lets a group write a state that has to be synced.
func addLearner(n *Node, shard uint16) error {
	self := n.loop.machine.Self()
	joining := shardmap.Member{Node: "far", Incarnation: strings.Repeat("f", 32), RaftID: 2, Role: shardmap.Learner}
	var err error
	failed := n.loop.queue.do(func() { err = n.loop.machine.Host().Change(shard, []shardmap.Member{self, joining}) })
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	return n.loop.queue.do(func() {}) // the round of the change is written
}

func syncing(t *testing.T, n *Node, shard uint16) bool {
	t.Helper()
	status, err := (groups{n}).Status(shard)
	if err != nil {
		t.Fatal(err)
	}
	return status.Syncing
}

// startWrite writes a sample into a shard.
func startWrite(n *Node, shard uint16) <-chan error {
	done := make(chan error, 1)
	frame := frameOf(shard)
	go func() {
		_, err := n.Write(context.Background(), frame)
		done <- err
	}()
	return done
}

func TestOtherGroupsDoNotWaitForASync(t *testing.T) {
	gate := &syncGate{}
	n := mustOpen(t, testOptions(vfs.Faults(vfs.NewMemFS(), gate.rule), SyncInterval))
	for shard := range uint16(testShards) {
		if err := <-startWrite(n, shard); err != nil {
			t.Fatal(err)
		}
	}
	shut := make(chan struct{})
	gate.set(shut, nil)
	if err := addLearner(n, 0); err != nil {
		t.Fatal(err)
	}
	waits := startWrite(n, 0)
	for shard := uint16(1); shard < testShards; shard++ {
		if err := <-startWrite(n, shard); err != nil {
			t.Fatal(err)
		}
	}
	if !syncing(t, n, 0) || syncing(t, n, 1) {
		t.Fatal("another group waits than the one that has a new state")
	}
	if _, err := n.GroupView(0); !errors.Is(err, series.ErrUnavailable) {
		t.Fatalf("a configuration that may be lost is told: %v", err)
	}
	select {
	case err := <-waits:
		t.Fatalf("a write is answered before the group's state is durable: %v", err)
	default:
	}
	gate.set(nil, nil)
	close(shut)
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStateThatCannotBeSynced(t *testing.T) {
	gate := &syncGate{}
	n := mustOpen(t, testOptions(vfs.Faults(vfs.NewMemFS(), gate.rule), SyncInterval))
	if err := <-startWrite(n, 0); err != nil {
		t.Fatal(err)
	}
	gate.set(nil, syscall.EIO)
	_ = addLearner(n, 0) // the log may be known to be broken before it returns
	if err := <-startWrite(n, 0); !errors.Is(err, series.ErrReadOnly) {
		t.Fatalf("a write to a group whose state is not durable: %v", err)
	}
	if err := n.Close(); err == nil {
		t.Fatal("a broken log is closed as if it were sound")
	}
}
