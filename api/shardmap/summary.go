package shardmap

// Summary is the state of placement in numbers.
type Summary struct {
	Moving          int // shards with something intended
	UnderReplicated int // shards with fewer live full voters than replication
	WithoutWitness  int // shards without a live witness though replication is 2
	Incomplete      int // shards with a member that is not live
	Unable          int // shards whose group has no majority, or nobody live with the data
	NodesLive       int
	NodesDead       int // known, named by the map, and not live
}

// Summarize counts.
func Summarize(s State) Summary {
	var sum Summary
	for _, node := range s.Nodes {
		sum.NodesLive += oneIf(node.DeadSinceMs == 0)
	}
	if s.Map == nil {
		return sum
	}
	p := newNodeSet(&s, &Limits{})
	t := &targets{nodeSet: p}
	dead := map[string]bool{}
	for i := range s.Map.Rows {
		row := &s.Map.Rows[i]
		fulls, witnesses, missing := 0, 0, 0
		for _, m := range row.Members {
			live := p.live(m)
			missing += oneIf(!live)
			fulls += oneIf(live && m.Role == Full)
			witnesses += oneIf(live && m.Role == Witness)
			if !p.all[p.byID[m.Node]].live {
				dead[m.Node] = true
			}
		}
		sum.Moving += oneIf(row.Intended != nil)
		sum.Incomplete += oneIf(missing > 0)
		sum.UnderReplicated += oneIf(fulls < s.Map.Settings.Replication)
		sum.WithoutWitness += oneIf(s.Map.Settings.Replication == 2 && witnesses == 0)
		sum.Unable += oneIf(!t.able(row))
	}
	sum.NodesDead = len(dead)
	return sum
}
