package wire

import (
	"github.com/tickmesh/tickmesh/api/shardmap"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// ReplicaStatus returns a member as a message, without what only its leader has of it.
func ReplicaStatus(m shardmap.Member) *tickmeshv1.ReplicaStatus {
	return &tickmeshv1.ReplicaStatus{Node: m.Node, Incarnation: m.Incarnation, RaftId: m.RaftID, Role: RoleStatus(m.Role)}
}

// ReplicaStatuses returns members as messages.
func ReplicaStatuses(members []shardmap.Member) (out []*tickmeshv1.ReplicaStatus) {
	for _, m := range members {
		out = append(out, ReplicaStatus(m))
	}
	return out
}

// MembersOf is the inverse of ReplicaStatuses.
func MembersOf(statuses []*tickmeshv1.ReplicaStatus) (members []shardmap.Member) {
	for _, m := range statuses {
		members = append(members, shardmap.Member{Node: m.GetNode(), Incarnation: m.GetIncarnation(), RaftID: m.GetRaftId(), Role: RoleOf(m.GetRole())})
	}
	return members
}

// RoleStatus returns a role as a message.
func RoleStatus(role shardmap.Role) tickmeshv1.ReplicaRole {
	switch role {
	case shardmap.Full:
		return tickmeshv1.ReplicaRole_REPLICA_ROLE_FULL
	case shardmap.Witness:
		return tickmeshv1.ReplicaRole_REPLICA_ROLE_WITNESS
	case shardmap.Learner:
		return tickmeshv1.ReplicaRole_REPLICA_ROLE_LEARNER
	}
	return tickmeshv1.ReplicaRole_REPLICA_ROLE_UNSPECIFIED
}

// RoleOf is the inverse of RoleStatus.
func RoleOf(role tickmeshv1.ReplicaRole) shardmap.Role {
	switch role {
	case tickmeshv1.ReplicaRole_REPLICA_ROLE_WITNESS:
		return shardmap.Witness
	case tickmeshv1.ReplicaRole_REPLICA_ROLE_LEARNER:
		return shardmap.Learner
	case tickmeshv1.ReplicaRole_REPLICA_ROLE_FULL, tickmeshv1.ReplicaRole_REPLICA_ROLE_UNSPECIFIED:
	}
	return shardmap.Full
}

// GroupOf returns what a node reports of a group.
func GroupOf(g *nodev1.GroupReport) shardmap.GroupReport {
	r := shardmap.GroupReport{
		Shard: uint16(g.GetShard()), Era: g.GetEra(), RaftID: g.GetRaftId(), ConfigIndex: g.GetMembersIndex(), RaftIDLast: g.GetRaftId(),
	}
	r.Members = MembersOf(g.GetMembers())
	for _, member := range r.Members {
		r.RaftIDLast = max(r.RaftIDLast, member.RaftID)
	}
	return r
}
