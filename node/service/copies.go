package service

import (
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// addCopies reports what a shard without a majority may go on from. A group that is younger
// than what is known of copies is unclear.
func addCopies(r *nodev1.ReportResponse, copies *shardmap.NodeCopies) {
	r.FormerIncarnations, r.SyncMs = copies.Former, uint64(copies.SyncMs)
	for _, g := range r.GetGroups() {
		g.Unclear = true
		for i := range copies.Copies {
			if c := &copies.Copies[i]; !c.Quarantined && uint32(c.Shard) == g.GetShard() && c.RaftID == g.GetRaftId() {
				g.Unclear, g.NewestMs, g.Leaving, g.Outgoing = c.Unclear, c.NewestMs, wire.ReplicaStatuses(c.Leaving), c.Outgoing
			}
		}
	}
	for i := range copies.Copies {
		c := &copies.Copies[i]
		if !c.Quarantined {
			continue
		}
		r.Relics = append(r.Relics, &nodev1.GroupReport{
			Shard: uint32(c.Shard), RaftId: c.RaftID, Role: wire.RoleStatus(c.Role), Era: c.Era, Term: c.Term, LastTerm: c.Term, LastIndex: c.Index,
			MembersIndex: c.ConfigIndex, Members: wire.ReplicaStatuses(c.Members), Leaving: wire.ReplicaStatuses(c.Leaving), Outgoing: c.Outgoing,
			Joint: len(c.Outgoing) > 0, NewestMs: c.NewestMs, Unclear: c.Unclear,
		})
	}
}
