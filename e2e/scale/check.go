package scale

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// errPlacement marks a map that is not as it has to be.
var errPlacement = errors.New("placement is wrong")

// loadsOf counts copies by live node.
func loadsOf(m *shardmap.Map, s shardmap.State) Loads {
	counts := map[string]int{}
	for _, row := range m.Rows {
		for _, member := range row.Members {
			counts[member.Node]++
		}
	}
	return spreadOf(counts, s)
}

func spreadOf(counts map[string]int, s shardmap.State) Loads {
	var loads []int
	for id, node := range s.Nodes {
		if node.DeadSinceMs == 0 {
			loads = append(loads, counts[id])
		}
	}
	return Loads{Most: slices.Max(loads), Least: slices.Min(loads)}
}

// liveZones returns the zones with a live node.
func liveZones(s shardmap.State) map[string]bool {
	live := map[string]bool{}
	for _, node := range s.Nodes {
		if node.DeadSinceMs == 0 {
			live[node.Zone] = true
		}
	}
	return live
}

// checkPlaced checks that each shard has its copies, on distinct nodes, in as many zones as there are.
func checkPlaced(m *shardmap.Map, s shardmap.State, copies int) error {
	for shard, row := range m.Rows {
		if err := checkRow(row, s, copies); err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return nil
}

func checkRow(row shardmap.Row, s shardmap.State, copies int) error {
	nodes, in := map[string]bool{}, map[string]bool{}
	for _, member := range row.Members {
		if member.Role != shardmap.Full {
			return fmt.Errorf("%w: %s on %s", errPlacement, member.Role, member.Node)
		}
		if s.Nodes[member.Node].DeadSinceMs != 0 {
			return fmt.Errorf("%w: a copy on the dead %s", errPlacement, member.Node)
		}
		nodes[member.Node], in[s.Nodes[member.Node].Zone] = true, true
	}
	if len(row.Members) != copies || len(nodes) != copies {
		return fmt.Errorf("%w: %d copies on %d nodes, not %d", errPlacement, len(row.Members), len(nodes), copies)
	}
	if want := min(copies, len(liveZones(s))); len(in) != want {
		return fmt.Errorf("%w: copies in %d zones, not %d", errPlacement, len(in), want)
	}
	return nil
}

// hasMajority reports whether most members of a row are live.
func hasMajority(row shardmap.Row, s shardmap.State) bool {
	live := 0
	for _, member := range row.Members {
		if s.Nodes[member.Node].DeadSinceMs == 0 {
			live++
		}
	}
	return 2*live > len(row.Members)
}

// checkMoved checks a map after an event: rows whose group had a majority are placed as they should be, others are as they were.
func checkMoved(before, after *shardmap.Map, s shardmap.State, copies int) error {
	for shard, row := range after.Rows {
		if !hasMajority(before.Rows[shard], s) {
			if !row.Equal(before.Rows[shard]) {
				return fmt.Errorf("%w: shard %d has no majority and was changed", errPlacement, shard)
			}
			continue
		}
		if err := checkRow(row, s, copies); err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return nil
}

// built counts the replicas of a map that another does not have.
func built(before, after *shardmap.Map) (moves int) {
	for shard, row := range after.Rows {
		for _, member := range row.Members {
			if !slices.ContainsFunc(before.Rows[shard].Members, member.SameReplica) {
				moves++
			}
		}
	}
	return moves
}

// leastMended counts the copies that dead nodes held of shards that have a majority left, and the shards that have none.
func leastMended(m *shardmap.Map, s shardmap.State) (moves, lost int) {
	for _, row := range m.Rows {
		if !hasMajority(row, s) {
			lost++
			continue
		}
		for _, member := range row.Members {
			if s.Nodes[member.Node].DeadSinceMs != 0 {
				moves++
			}
		}
	}
	return moves, lost
}

// leastGrown is what a further node has to take so that no node has two copies more than it: of all
// nodes with one copy, of those of its zone where each zone has a copy of each shard.
func leastGrown(c Case) int {
	if c.Copies < zones {
		return c.Shards * c.Copies / (c.Nodes + 1)
	}
	peers := 1
	for i := range c.Nodes {
		if i%zones == c.Nodes%zones {
			peers++
		}
	}
	return c.Shards / peers
}
