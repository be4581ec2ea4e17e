package auditor

import (
	"context"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// cutPowerOfOne cuts the power of each node in turn, once the one before has all of
// its copies again. The others have what it lost.
func cutPowerOfOne(ctx context.Context, s *Stage) error {
	for _, node := range s.Servers(harness.RoleNode) {
		view, err := s.store.Load(ctx)
		if err != nil {
			return err
		}
		before := view.Nodes[node.NodeID].StartedMs
		err = s.during(ctx, "cut the power of "+node.Name, node.CutPower, func() error {
			if err := node.Start(ctx); err != nil {
				return err
			}
			return s.until(ctx, node.Name+" to have its copies", func(view shardmap.View) string {
				if view.Nodes[node.NodeID].StartedMs <= before {
					return node.Name + " is not registered yet"
				}
				return whole(view)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cutPowerOfAll cuts the power of all nodes at once. What was answered was synced
// before by a majority, so nothing of it may be lost.
func cutPowerOfAll(ctx context.Context, s *Stage) error {
	rounds := 3
	if s.options.Long {
		rounds = 30
	}
	nodes := s.Servers(harness.RoleNode)
	for round := range rounds {
		s.logf("round %d: cut the power of all nodes", round)
		for _, node := range nodes {
			if err := node.CutPower(); err != nil {
				return err
			}
		}
		for _, node := range nodes {
			if err := node.Start(ctx); err != nil {
				return err
			}
		}
		if err := s.progress(ctx); err != nil {
			return err
		}
		if err := s.check(ctx); err != nil {
			return err
		}
	}
	return nil
}
