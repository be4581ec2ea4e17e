package auditor

import (
	"context"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// underWay returns what is under way; "" when nothing is.
func underWay(view shardmap.View) string {
	if moving := view.Map.Moving(); moving > 0 {
		return fmt.Sprintf("%d shards are on their way", moving)
	}
	return ""
}

// holding returns which of the nodes has no full replica, or what is under way.
func holding(nodes ...string) func(view shardmap.View) string {
	return func(view shardmap.View) string {
		for _, node := range nodes {
			full := 0
			for _, placed := range view.Map.MembersOn(node) {
				if placed.Published && placed.Role == shardmap.Full {
					full++
				}
			}
			if full == 0 {
				return node + " has no full replica"
			}
		}
		return underWay(view)
	}
}

// leaving returns which of the nodes still has a replica, or what is under way.
func leaving(nodes ...string) func(view shardmap.View) string {
	return func(view shardmap.View) string {
		for _, node := range nodes {
			if placed := view.Map.MembersOn(node); len(placed) > 0 {
				return fmt.Sprintf("%s has %d replicas", node, len(placed))
			}
		}
		return underWay(view)
	}
}

// begun waits until a move is under way, or all is as wanted already.
func (s *Stage) begun(ctx context.Context, done func(view shardmap.View) string) error {
	return s.until(ctx, "a move to begin", func(view shardmap.View) string {
		if view.Map.Moving() > 0 || done(view) == "" {
			return ""
		}
		return "nothing moves"
	})
}

// scale goes from three nodes to five and back, with a change of mind in the middle.
func scale(ctx context.Context, s *Stage) error {
	s.logf("start n4 and n5")
	for _, id := range []string{"n4", "n5"} {
		if _, err := s.AddNode(ctx, id); err != nil {
			return err
		}
	}
	steps := []struct {
		name    string
		desired map[string]shardmap.Desired
		done    func(view shardmap.View) string
		half    bool // go on as soon as a move is under way
	}{
		{"take n5 back while shards move to it", map[string]shardmap.Desired{"n5": shardmap.Draining}, leaving("n5"), true},
		{"want n5 after all", map[string]shardmap.Desired{"n5": shardmap.Active}, holding("n4", "n5"), false},
		{"drain n4", map[string]shardmap.Desired{"n4": shardmap.Draining}, leaving("n4"), true},
		{"drain n5 instead of n4", map[string]shardmap.Desired{"n4": shardmap.Active, "n5": shardmap.Draining}, leaving("n5"), true},
		{"drain both", map[string]shardmap.Desired{"n4": shardmap.Draining}, leaving("n4", "n5"), false},
	}
	if err := s.begun(ctx, holding("n4", "n5")); err != nil {
		return err
	}
	for _, step := range steps {
		s.logf("%s", step.name)
		for node, desired := range step.desired {
			if err := s.store.SetDesired(ctx, node, desired); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		until := s.begun
		if !step.half {
			until = func(ctx context.Context, done func(shardmap.View) string) error { return s.until(ctx, step.name, done) }
		}
		if err := until(ctx, step.done); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if err := s.progress(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if err := s.check(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	s.logf("stop n4 and n5")
	for _, id := range []string{"n4", "n5"} {
		if err := s.Server(id).Stop(stopBound); err != nil {
			return err
		}
	}
	return nil
}

// replaceDisk replaces the disk of a leader by an empty one under its old name, waits until it is
// rebuilt, and starts its old disk again, which has to be refused; so is a copy of its
// new disk.
func replaceDisk(ctx context.Context, s *Stage) error {
	node, err := s.leader(ctx)
	if err != nil {
		return err
	}
	s.logf("give %s an empty disk", node.Name)
	if err := node.Kill(); err != nil {
		return err
	}
	old, err := node.TakeDisk()
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	if err := s.progress(ctx); err != nil {
		return fmt.Errorf("with an empty disk: %w", err)
	}
	if err := s.until(ctx, node.Name+" to be rebuilt", whole); err != nil {
		return err
	}
	if err := s.check(ctx); err != nil {
		return fmt.Errorf("rebuilt on an empty disk: %w", err)
	}
	if err := s.refused(ctx, node, "old-disk", old); err != nil {
		return err
	}
	s.logf("copy the disk of %s", node.Name)
	if err := node.Stop(stopBound); err != nil {
		return err
	}
	clone := node.DataDir + ".copy"
	if err := node.CopyDisk(clone); err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, node.Name+" to register", s.anyMissing); err != nil {
		return err
	}
	if err := s.refused(ctx, node, "copy", clone); err != nil {
		return err
	}
	return s.check(ctx)
}

// votersWanted is the number of voters of each group, be the third a witness or not.
const votersWanted = 3

// whole returns what is missing until each shard has all of its voters, on disks that are
// there, and nothing is under way.
func whole(view shardmap.View) string {
	for shard, row := range view.Map.Rows {
		full, voters := 0, 0
		for _, member := range row.Members {
			info, ok := view.Nodes[member.Node]
			if !ok || info.Incarnation != member.Incarnation {
				return fmt.Sprintf("shard %d has a member on %s that is gone", shard, member.Node)
			}
			if member.Role == shardmap.Full {
				full++
			}
			if member.Role.Votes() {
				voters++
			}
		}
		if full != view.Map.Settings.Replication || voters != votersWanted {
			return fmt.Sprintf("shard %d has %d voters, %d of them with data", shard, voters, full)
		}
	}
	return underWay(view)
}

// refused starts a twin of a node, and waits until it gives up. The clients must not
// notice.
func (s *Stage) refused(ctx context.Context, of *harness.Server, name, disk string) error {
	s.logf("start %s with its %s beside it", of.Name, name)
	twin, err := s.Twin(of, of.Name+"-"+name, disk)
	if err != nil {
		return err
	}
	if err := twin.Launch(); err != nil {
		return err
	}
	timer := time.NewTimer(2 * standstillMax)
	defer timer.Stop()
	select {
	case <-twin.Process().Done():
	case <-timer.C:
		return fmt.Errorf("%w: a twin of %s is not refused\n%s", ErrBroken, of.Name, s.Describe())
	case <-ctx.Done():
		return ctx.Err()
	}
	if twin.Process().Err() == nil {
		return fmt.Errorf("a twin of %s ends without an error", of.Name)
	}
	s.logf("refused: %s", twin.Process().LogTail(300))
	return s.progress(ctx)
}
