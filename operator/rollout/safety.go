package rollout

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// without reports why a shard would be worse off than it may be without a node: "" when it
// keeps a majority, in every configuration that it may be in, and a complete copy.
func (f *Facts) without(shard int, node string, ending []string) string {
	out := append(ending[:len(ending):len(ending)], node) // what ends for good does not count any more
	row := &f.State.Map.Rows[shard]
	leader := f.leader(shard)
	if leader == nil {
		return "no leader is known"
	}
	if !majority(row.Members, leader, out) || !majority(leader.config(), leader, out) {
		return "it would have no majority"
	}
	if row.Intended != nil && !majority(row.Intended, leader, out) {
		return "it is being moved"
	}
	for _, m := range row.Members {
		if m.Role == shardmap.Full && !slices.Contains(out, m.Node) && f.live(m.Node) && leader.complete(m) {
			return ""
		}
	}
	return "no other copy of it is complete"
}

// leader returns the report of a shard's leader; nil: there is none.
func (f *Facts) leader(shard int) *Shard {
	if shard >= len(f.Shards) || f.Shards[shard].Leader == "" || len(f.Shards[shard].Members) == 0 {
		return nil
	}
	return &f.Shards[shard]
}

// config returns the members as the leader has them.
func (s *Shard) config() []shardmap.Member {
	var members []shardmap.Member
	for i := range s.Members {
		members = append(members, s.Members[i].Member)
	}
	return members
}

// replica returns the leader's state of a member; nil: it has none.
func (s *Shard) replica(m shardmap.Member) *Replica {
	for i := range s.Members {
		if s.Members[i].SameReplica(m) {
			return &s.Members[i]
		}
	}
	return nil
}

func (s *Shard) active(m shardmap.Member) bool {
	r := s.replica(m)
	return r != nil && r.Active
}

// complete reports whether a full voter has all that is committed, but for the last few
// entries.
func (s *Shard) complete(m shardmap.Member) bool {
	r := s.replica(m)
	return r != nil && r.Active && r.Role == shardmap.Full && r.MatchIndex+LagEntriesMax >= s.CommitIndex
}

// lagging returns the shards of which a node has a full copy that votes and is not
// complete, as their leaders say. A shard without a leader is not among them.
func (f *Facts) lagging(node string) (shards []uint16) {
	if f.State.Map == nil {
		return nil
	}
	for shard := range f.State.Map.Rows {
		leader := f.leader(shard)
		if leader == nil {
			continue
		}
		for i := range leader.Members {
			if m := leader.Members[i].Member; m.Node == node && m.Role == shardmap.Full && !leader.complete(m) {
				shards = append(shards, uint16(shard))
			}
		}
	}
	return shards
}

// majority reports whether most of the voters are active without some nodes.
func majority(members []shardmap.Member, leader *Shard, out []string) bool {
	voters, active := 0, 0
	for _, m := range members {
		if !m.Role.Votes() {
			continue
		}
		voters++
		if !slices.Contains(out, m.Node) && leader.active(m) {
			active++
		}
	}
	return 2*active > voters
}

// singleVoter reports whether a shard can have no more voters than it has, and has all of them:
// then a restart of one costs answers, but no data.
func (d *decision) singleVoter(shard int) bool {
	row := &d.State.Map.Rows[shard]
	leader := d.leader(shard)
	replication := d.State.Map.Settings.Replication
	few := replication == 1 || d.holders() < votersMin
	if !few || leader == nil || row.Intended != nil || len(row.Members) >= votersMin || len(row.Members) > replication {
		return false
	}
	for _, m := range row.Members {
		if m.Role != shardmap.Full || !leader.complete(m) {
			return false
		}
	}
	return true
}

// holders returns the number of nodes that may hold shards.
func (d *decision) holders() int {
	holders := 0
	for _, g := range d.groups {
		for ordinal := range g.wanted {
			if node := g.NodeName(ordinal); !d.Want.Drained[node] || d.State.Desired[node] != shardmap.Draining {
				holders++
			}
		}
	}
	return holders
}

// votersMin is the least number of voters that can do without one.
const votersMin = 3

// votes reports whether a node votes in a shard, or is to.
func (f *Facts) votes(shard int, node string) bool {
	row := &f.State.Map.Rows[shard]
	for _, list := range [][]shardmap.Member{row.Members, row.Intended} {
		for _, m := range list {
			if m.Node == node && m.Role.Votes() {
				return true
			}
		}
	}
	if leader := f.leader(shard); leader != nil {
		for i := range leader.Members {
			if leader.Members[i].Node == node && leader.Members[i].Role.Votes() {
				return true
			}
		}
	}
	return false
}

// needed returns the shards that would be worse off than they may be without a node, and
// why the first of them. Lone leaves out those that cannot have more
// voters.
func (d *decision) needed(node string, lone bool) (shards []uint16, why string) {
	if d.State.Map == nil {
		return nil, ""
	}
	ending := d.ending()
	for shard := range d.State.Map.Rows {
		if !d.votes(shard, node) {
			continue
		}
		reason := d.without(shard, node, ending)
		if reason == "" || lone && d.singleVoter(shard) {
			continue
		}
		if why == "" {
			why = fmt.Sprintf("shard %d: %s", shard, reason)
		}
		shards = append(shards, uint16(shard))
	}
	return shards, why
}

// endsForGood reports whether a node's pod is ending and its volume goes with it. The
// process runs on for a while, so that placement still takes it for a place for shards,
// and leaders for a replica.
func (s slot) endsForGood() bool {
	claim, pod := s.claim(), s.pod()
	return claim != nil && claim.Terminating && pod != nil && pod.Terminating
}

// ending returns the nodes that end for good.
func (d *decision) ending() (nodes []string) {
	for s := range d.pods {
		if s.endsForGood() {
			nodes = append(nodes, s.node())
		}
	}
	return nodes
}
