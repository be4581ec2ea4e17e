package auditor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// cutFromEtcd cuts a node, a router, then all of them from etcd only, until the
// leases of the nodes have ended.
func cutFromEtcd(ctx context.Context, s *Stage) error {
	leader, err := s.leader(ctx)
	if err != nil {
		return err
	}
	everybody := append(s.Servers(harness.RoleNode), s.Servers(harness.RoleRouter)...)
	for _, group := range [][]*harness.Server{{leader}, {s.Servers(harness.RoleRouter)[0]}, everybody} {
		f := s.cut(harness.Swallow(), false, s.Etcd, group...)
		begin, end := f.begin, f.end
		f.begin = func(ctx context.Context) error {
			return errors.Join(begin(ctx), s.until(ctx, "leases to end", func(view shardmap.View) string { return anyAlive(view, group) }))
		}
		f.end = func(ctx context.Context) error {
			return errors.Join(end(ctx), s.until(ctx, "nodes to register again", s.anyMissing))
		}
		if err := s.during(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// anyAlive names a node of a group that holds its lease.
func anyAlive(view shardmap.View, group []*harness.Server) string {
	for _, server := range group {
		if _, ok := view.Nodes[server.NodeID]; ok {
			return server.NodeID + " holds its lease"
		}
	}
	return ""
}

// anyMissing names a node that runs and holds no lease.
func (s *Stage) anyMissing(view shardmap.View) string {
	for _, node := range s.nodes() {
		if _, ok := view.Nodes[node.ID]; !ok {
			return node.ID + " holds no lease"
		}
	}
	return ""
}

// killEtcd kills etcd, and while it is away a leader, which has to be replaced, and
// started again, without it.
func killEtcd(ctx context.Context, s *Stage) error {
	leader, err := s.leader(ctx)
	if err != nil {
		return err
	}
	s.logf("kill etcd")
	if err := s.Etcd.Kill(); err != nil {
		return err
	}
	if err := s.progress(ctx); err != nil {
		return fmt.Errorf("etcd is dead: %w", err)
	}
	s.logf("kill %s, and start it again", leader.Name)
	if err := leader.Kill(); err != nil {
		return err
	}
	if err := s.progress(ctx); err != nil {
		return fmt.Errorf("etcd and %s are dead: %w", leader.Name, err)
	}
	if err := leader.Start(ctx); err != nil {
		return fmt.Errorf("without etcd: %w", err)
	}
	if err := s.progress(ctx); err != nil {
		return fmt.Errorf("etcd is dead, %s is back: %w", leader.Name, err)
	}
	s.logf("start etcd again")
	if err := s.Etcd.Start(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, "nodes to register again", s.anyMissing); err != nil {
		return err
	}
	return s.check(ctx)
}

// rollEtcdBack moves shards to a new node, and sets etcd back to before: nobody may
// believe it, nor go on from it, not even a router that starts now. Then etcd gets its
// newer data again.
func rollEtcdBack(ctx context.Context, s *Stage) error {
	old := s.Etcd.DataDir + ".before"
	if err := s.restartEtcd(ctx, func() error { return s.Etcd.CopyDisk(old) }); err != nil {
		return err
	}
	s.logf("start n4, which gets shards")
	if _, err := s.AddNode(ctx, "n4"); err != nil {
		return err
	}
	if err := s.until(ctx, "shards to move to n4", holding("n4")); err != nil {
		return err
	}
	s.logf("roll etcd back")
	var newer string
	err := s.restartEtcd(ctx, func() (err error) {
		if newer, err = s.Etcd.TakeDisk(); err != nil {
			return err
		}
		return os.Rename(old, s.Etcd.DataDir)
	})
	if err != nil {
		return err
	}
	if err := s.rolledBack(ctx); err != nil {
		return fmt.Errorf("etcd is rolled back: %w", err)
	}
	s.logf("give etcd its newer data again")
	err = s.restartEtcd(ctx, func() error {
		if err := os.RemoveAll(s.Etcd.DataDir); err != nil {
			return err
		}
		return os.Rename(newer, s.Etcd.DataDir)
	})
	if err != nil {
		return err
	}
	if err := s.until(ctx, "nodes to register again", s.anyMissing); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if err := s.WaitReady(bounded); err != nil {
		return err
	}
	if err := s.progress(ctx); err != nil {
		return err
	}
	return s.check(ctx)
}

// rolledBack checks that clients are served while etcd is rolled back, and that the
// map in it stays as it is, whoever comes new to it.
func (s *Stage) rolledBack(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, standstillMax)
	defer cancel()
	stranger, err := s.OpenStore() // has seen no map before
	if err != nil {
		return err
	}
	defer stranger.Close()
	view, err := stranger.Load(bounded)
	for ; err != nil; view, err = stranger.Load(bounded) {
		if !wait(bounded, pollInterval) {
			return fmt.Errorf("%w: etcd: %w", ErrStalled, err)
		}
	}
	if _, err := s.store.Load(bounded); !errors.Is(err, shardmap.ErrRolledBack) {
		return fmt.Errorf("%w: an old map is taken for a good one: %v", ErrBroken, err)
	}
	router := s.Servers(harness.RoleRouter)[0]
	s.logf("kill %s, and start it again", router.Name)
	if err := router.Kill(); err != nil {
		return err
	}
	if err := router.Launch(); err != nil {
		return err
	}
	// A new loop needs a moment for a first step; a slow machine makes this weaker,
	// never wrong.
	wait(ctx, rollbackPause)
	if err := s.progress(ctx); err != nil {
		return err
	}
	if err := s.Audit.Check(bounded); err != nil {
		return err
	}
	now, err := stranger.Load(bounded)
	switch {
	case err != nil:
		return err
	case now.Map == nil || now.Map.Epoch != view.Map.Epoch:
		return fmt.Errorf("%w: somebody went on from an old map", ErrBroken)
	}
	return nil
}

// rollbackPause is longer than the placement loop and the nodes need to look at etcd.
const rollbackPause = 12 * time.Second

// restartEtcd stops etcd, does something to its disk, and starts it again.
func (s *Stage) restartEtcd(ctx context.Context, change func() error) error {
	if err := s.Etcd.Stop(stopBound); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	return s.Etcd.Start(ctx)
}
