package auditor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
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
		f := unpowered(node)
		start := f.end
		f.end = func(ctx context.Context) error {
			if err := start(ctx); err != nil {
				return err
			}
			return s.until(ctx, node.Name+" to have its copies", func(view shardmap.View) string {
				if view.Nodes[node.NodeID].StartedMs <= before {
					return node.Name + " is not registered yet"
				}
				return whole(view)
			})
		}
		if err := s.during(ctx, f); err != nil {
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

// cutAll cuts the power of all nodes at once, and tells the audit what may be lost: what
// was acknowledged after the last moment of which all nodes have synced their logs since.
func (s *Stage) cutAll(ctx context.Context, nodes []*harness.Server) error {
	if err := s.progress(ctx); err != nil {
		return err
	}
	since := time.Now()
	if err := s.synced(ctx, nodes); err != nil {
		return err
	}
	for _, node := range nodes { // all at once: nobody goes on with what others lose
		if err := node.Kill(); err != nil {
			return err
		}
	}
	for _, node := range nodes {
		if err := node.DropUnsynced(); err != nil {
			return err
		}
	}
	s.Audit.MayLose(since)
	return nil
}

// synced waits until each node has synced its log, from a sync on that began after the call:
// the first that ends may have begun before it, the second has not, as a log syncs once at a time.
func (s *Stage) synced(ctx context.Context, nodes []*harness.Server) error {
	for _, node := range nodes {
		before, err := counterOf(ctx, node, "tickmesh_log_syncs_total")
		if err != nil {
			return err
		}
		var stands standstill[float64]
		for now := before; now < before+2; {
			if stands.tooLong(time.Now(), now) || !wait(ctx, pollInterval) {
				return fmt.Errorf("%w: %s does not sync its log", ErrStalled, node.Name)
			}
			if now, err = counterOf(ctx, node, "tickmesh_log_syncs_total"); err != nil {
				return err
			}
		}
	}
	return nil
}

// cutPowerOfAllUnsynced cuts the power of all nodes at once while they sync their logs
// once a second only. When all are back, everything goes on by itself, without at most
// what was answered since the last sync.
func cutPowerOfAllUnsynced(ctx context.Context, s *Stage) error {
	rounds := 2
	if s.options.Long {
		rounds = 20
	}
	nodes := s.Servers(harness.RoleNode)
	for round := range rounds {
		s.logf("round %d: cut the power of all nodes", round)
		if err := s.cutAll(ctx, nodes); err != nil {
			return err
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
		if err := s.until(ctx, "all copies to be there", whole); err != nil {
			return err
		}
		if err := s.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// cutPowerOneAway cuts the power of all nodes, of which one does not come back. A person
// lets the shards go on that wait for it; then it comes back, and what it has of those
// counts no more.
func cutPowerOneAway(ctx context.Context, s *Stage) error {
	nodes := s.Servers(harness.RoleNode)
	if err := s.cutAll(ctx, nodes); err != nil {
		return err
	}
	away := nodes[s.random.IntN(len(nodes))]
	for _, node := range nodes {
		if node == away {
			continue
		}
		if err := node.Start(ctx); err != nil {
			return err
		}
	}
	err := s.until(ctx, "two nodes to be back", func(view shardmap.View) string {
		for _, node := range nodes {
			known := view.Incarnations[node.NodeID]
			if node != away && (len(known) < 2 || view.Nodes[node.NodeID].Incarnation != known[len(known)-1].ID) {
				return node.Name + " is not registered"
			}
		}
		return ""
	})
	if err != nil {
		return err
	}
	if err := s.recover(ctx); err != nil {
		return err
	}
	if err := s.progress(ctx); err != nil {
		return err
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	if err := away.Start(ctx); err != nil {
		return err
	}
	return s.until(ctx, "all copies to be there", whole)
}

// noMajority finds in a status that shards need a recovery.
var noMajority = regexp.MustCompile(`no majority of shards`)

// recover has the command line let all shards go on, again while some come to need it: a
// leader that has lost its majority needs a moment to notice.
func (s *Stage) recover(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, standstillMax)
	defer cancel()
	for {
		if err := s.hearNodes(bounded); err != nil {
			return err
		}
		out, err := exec.CommandContext(bounded, s.options.Binary, "recover", "--yes", "--addr", s.grpc).CombinedOutput()
		s.logf("recover: %s", out)
		if err != nil {
			return fmt.Errorf("%w: recover: %w: %s", ErrRefused, err, out)
		}
		status, err := exec.CommandContext(bounded, s.options.Binary, "status", "--output", "json", "--addr", s.grpc).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: status: %w: %s", ErrRefused, err, status)
		}
		if !noMajority.Match(status) {
			return nil
		}
		if !wait(bounded, pollInterval) {
			return fmt.Errorf("%w: shards have no majority: %s", ErrStalled, status)
		}
	}
}

// hearNodes waits until all nodes that run have said what they have: on a busy machine one
// may be late, and a person who sees that waits for it.
func (s *Stage) hearNodes(ctx context.Context) error {
	runs := func(node string) bool {
		return slices.ContainsFunc(s.nodes(), func(n Node) bool { return n.ID == node })
	}
	for {
		out, err := exec.CommandContext(ctx, s.options.Binary, "recover", "--dry-run", "--output", "json", "--addr", s.grpc).Output()
		var found []client.Recovery
		if err = errors.Join(err, json.Unmarshal(out, &found)); err == nil &&
			!slices.ContainsFunc(found, func(r client.Recovery) bool { return slices.ContainsFunc(r.WaitsFor, runs) }) {
			return nil
		}
		if !wait(ctx, pollInterval) {
			return fmt.Errorf("%w: nodes do not say what they have: %v: %s", ErrStalled, err, out)
		}
	}
}
