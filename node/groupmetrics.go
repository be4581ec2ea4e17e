package node

// groupFigures count the replicas of this node.
type groupFigures struct {
	here, leading, witnesses, learners int
	changing                           int // shards led here whose members change
	fetching                           int // shards whose files are fetched
}

// groupFigures may be a moment old. It does not ask the loop, which may wait for a disk.
func (n *Node) groupFigures() (f groupFigures) {
	for shard := range n.loop.groups {
		v := &n.loop.groups[shard]
		if v.era.Load() == 0 {
			continue // there is no replica
		}
		f.here++
		f.leading += countIf(v.leads.Load())
		f.witnesses += countIf(v.witness.Load())
		f.learners += countIf(v.learner.Load())
		f.changing += countIf(v.changing.Load())
	}
	f.fetching = n.transfer.Fetching()
	return f
}

func countIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

func groupMetrics() []metric {
	return []metric{
		gauge("shards", "Shards of which a replica is here.", func(f *figures) float64 { return float64(f.groups.here) }),
		gauge("shards_leading", "Shards that this node leads.", func(f *figures) float64 { return float64(f.groups.leading) }),
		gauge("shards_witness", "Shards whose log this node witnesses, without their data.", func(f *figures) float64 { return float64(f.groups.witnesses) }),
		gauge("shards_learning", "Shards that this node catches up with, before it has a vote.", func(f *figures) float64 { return float64(f.groups.learners) }),
		gauge("shards_moving", "Shards that this node leads and whose members change.", func(f *figures) float64 { return float64(f.groups.changing) }),
		gauge("shards_fetching", "Shards whose files this node fetches from another one, because the log has not enough.", func(f *figures) float64 { return float64(f.groups.fetching) }),
	}
}
