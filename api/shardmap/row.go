package shardmap

import (
	"cmp"
	"slices"
)

// SameReplica reports whether both are the same replica: node, incarnation and raft id.
// The role may differ: a learner becomes a voter.
func (a Member) SameReplica(b Member) bool {
	return a.Node == b.Node && a.Incarnation == b.Incarnation && a.RaftID == b.RaftID
}

// SamePlace reports whether both are on the same incarnation of the same node.
func (a Member) SamePlace(b Member) bool { return a.Node == b.Node && a.Incarnation == b.Incarnation }

func (a Member) as(role Role) Member {
	a.Role = role
	return a
}

// SortMembers orders members by raft id, the order in which maps keep them.
func SortMembers(members []Member) {
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.RaftID, b.RaftID) })
}

// Clone returns a copy that shares nothing with r.
func (r Row) Clone() Row {
	r.Members, r.Intended = slices.Clone(r.Members), slices.Clone(r.Intended)
	if r.Recovered != nil {
		r.Recovered = new(*r.Recovered)
	}
	return r
}

// Equal reports whether both rows are the same, the order of members included. An
// empty Intended is not a nil one.
func (r Row) Equal(other Row) bool {
	return r.Version == other.Version && r.RaftIDLast == other.RaftIDLast && r.Era == other.Era && r.Fresh == other.Fresh &&
		slices.Equal(r.Members, other.Members) && slices.Equal(r.Intended, other.Intended) &&
		(r.Intended == nil) == (other.Intended == nil) &&
		(r.Recovered == nil) == (other.Recovered == nil) && (r.Recovered == nil || *r.Recovered == *other.Recovered)
}

// Target is what the group's leader works towards: Intended, or without one Members
// (a learner that a move given up has left behind goes away again).
func (r Row) Target() []Member {
	if r.Intended != nil {
		return r.Intended
	}
	return r.Members
}

// names reports whether a node has a replica, or is to have one.
func (r Row) names(node string) bool {
	isOn := func(m Member) bool { return m.Node == node }
	return slices.ContainsFunc(r.Members, isOn) || slices.ContainsFunc(r.Intended, isOn)
}

// MemberOn returns the published member on an incarnation of a node.
func (r Row) MemberOn(node, incarnation string) (Member, bool) {
	for _, member := range r.Members {
		if member.Node == node && member.Incarnation == incarnation {
			return member, true
		}
	}
	return Member{}, false
}

// Published returns the row after its leader has found the group's configuration to be
// config: Members are config, and Intended is cleared when it is reached, or when it
// cannot be reached any more because it names a replica that has left (its raft id
// is spent; placement decides anew), or another one in the place of a member that has
// joined meanwhile. It returns false when there is nothing to write.
//
// The leader calls it after each change of the configuration and before the next one.
func (r Row) Published(config []Member) (Row, bool) {
	next := r.Clone()
	next.Members = slices.Clone(config)
	SortMembers(next.Members)
	next.Fresh = false
	for _, member := range next.Members {
		next.RaftIDLast = max(next.RaftIDLast, member.RaftID)
	}
	if r.Intended != nil && (slices.Equal(next.Members, r.Intended) || spent(r, next.Members) || displaced(r, next.Members)) {
		next.Intended = nil
	}
	if next.Equal(r) {
		return r, false
	}
	next.Version++
	return next, true
}

// spent reports whether Intended names a replica that was a member and is none any more.
func spent(r Row, config []Member) bool {
	return slices.ContainsFunc(r.Intended, func(wanted Member) bool {
		return slices.ContainsFunc(r.Members, wanted.SameReplica) && !slices.ContainsFunc(config, wanted.SameReplica)
	})
}

// displaced reports whether Intended names another replica in the place of a member: a
// leader with an older map has added that one.
func displaced(r Row, config []Member) bool {
	return slices.ContainsFunc(r.Intended, func(wanted Member) bool {
		at := slices.IndexFunc(config, wanted.SamePlace)
		return at >= 0 && !keeps(config[at], wanted)
	})
}

// madeAs reports whether the row has or intends this very replica with this role. Of a
// learner Members does not tell what it was made for, and that decides whether it has
// data; so a learner is known by Intended only, and once given up by nothing.
func (r Row) madeAs(m Member) bool {
	return slices.Contains(r.Members, m) || slices.Contains(r.Intended, m)
}

// WithIntended is the row with another aim. A member with raft id 0, or with one that
// was not made for its role, is a new replica and gets the next raft id; the row is
// valid only if its place is free (M3). Naming exactly the present members calls a move
// off; the leader then publishes them (Row.Published).
func (r Row) WithIntended(intended []Member) Row {
	next := r.Clone()
	next.Version++
	next.Intended = slices.Clone(intended)
	for i := range next.Intended {
		if !r.madeAs(next.Intended[i]) {
			next.RaftIDLast++
			next.Intended[i].RaftID = next.RaftIDLast
		}
	}
	SortMembers(next.Intended)
	return next
}
