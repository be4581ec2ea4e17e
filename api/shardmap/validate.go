package shardmap

import (
	"fmt"
	"slices"
)

// IncarnationBytes is the length of an incarnation, and of a cluster's id, in
// hexadecimal digits.
const IncarnationBytes = 32

// epochMax bounds an epoch, so that a map always has room for changes after it: it is
// millions of jumps of epochJumpMax away.
const epochMax = 1 << 62

// Validate checks the map and each row. Errors: ErrMap, ErrFormat.
func (m Map) Validate() error {
	if m.Format != m.Settings.Format() {
		return fmt.Errorf("%w: %d, expected %d", ErrFormat, m.Format, m.Settings.Format())
	}
	switch {
	case !ValidName(m.Cluster):
		return fmt.Errorf("%w: cluster name %q", ErrMap, m.Cluster)
	case !ValidIncarnation(m.ID):
		return fmt.Errorf("%w: cluster id %q", ErrMap, m.ID)
	case m.Epoch == 0 || m.Epoch > epochMax:
		return fmt.Errorf("%w: epoch %d, not 1 to %d", ErrMap, m.Epoch, uint64(epochMax))
	case len(m.Rows) != m.Settings.Shards:
		return fmt.Errorf("%w: %d rows for %d shards", ErrMap, len(m.Rows), m.Settings.Shards)
	}
	if err := m.Settings.Validate(); err != nil {
		return err
	}
	for shard, row := range m.Rows {
		if err := row.Validate(); err != nil {
			return fmt.Errorf("%w: shard %d", err, shard)
		}
	}
	return nil
}

// Validate checks that the settings are within their bounds. Errors: ErrMap.
func (s Settings) Validate() error {
	if s.Shards < 1 || s.Shards > ShardsMax {
		return fmt.Errorf("%w: %d shards, not 1 to %d", ErrMap, s.Shards, ShardsMax)
	}
	if s.Replication < 1 || s.Replication > ReplicationMax {
		return fmt.Errorf("%w: replication %d, not 1 to %d", ErrMap, s.Replication, ReplicationMax)
	}
	if s.ShardKey != "" && !ValidIncarnation(s.ShardKey) {
		return fmt.Errorf("%w: the shard key is not %d hexadecimal digits", ErrMap, IncarnationBytes)
	}
	return nil
}

// Validate checks a row: rules M2, M3 and M5, and that no place is named twice.
// Errors: ErrMap.
func (r Row) Validate() error {
	if r.Version == 0 || r.Era == 0 {
		return fmt.Errorf("%w: version %d, era %d", ErrMap, r.Version, r.Era)
	}
	if err := r.validateMembers("members", r.Members); err != nil {
		return err
	}
	if r.Intended == nil {
		return nil
	}
	if err := r.validateMembers("intended members", r.Intended); err != nil {
		return err
	}
	for _, wanted := range r.Intended {
		if wanted.Role == Learner {
			return fmt.Errorf("%w: a learner is intended on %s", ErrMap, wanted.Node)
		}
		if is := slices.IndexFunc(r.Members, wanted.SamePlace); is >= 0 && !keeps(r.Members[is], wanted) {
			return fmt.Errorf("%w: the replica on %s would change from %s with raft id %d to %s with raft id %d", ErrMap,
				wanted.Node, r.Members[is].Role, r.Members[is].RaftID, wanted.Role, wanted.RaftID)
		}
		if is := slices.IndexFunc(r.Members, func(m Member) bool { return m.RaftID == wanted.RaftID }); is >= 0 && !r.Members[is].SamePlace(wanted) {
			return fmt.Errorf("%w: raft id %d of %s is intended for %s", ErrMap, wanted.RaftID, r.Members[is].Node, wanted.Node)
		}
	}
	return nil
}

// keeps is rule M3.
func keeps(is, wanted Member) bool {
	return is.RaftID == wanted.RaftID && (is.Role == wanted.Role || is.Role == Learner)
}

func (r Row) validateMembers(what string, members []Member) error {
	if len(members) == 0 || len(members) > MembersMax {
		return fmt.Errorf("%w: %d %s, not 1 to %d", ErrMap, len(members), what, MembersMax)
	}
	full := false
	for i, member := range members {
		switch {
		case !ValidName(member.Node):
			return fmt.Errorf("%w: node id %q", ErrMap, member.Node)
		case !ValidIncarnation(member.Incarnation):
			return fmt.Errorf("%w: incarnation %q of node %s", ErrMap, member.Incarnation, member.Node)
		case member.Role < Full || member.Role > Learner:
			return fmt.Errorf("%w: %s of node %s", ErrMap, member.Role, member.Node)
		case member.RaftID == 0 || member.RaftID > r.RaftIDLast:
			return fmt.Errorf("%w: raft id %d of node %s, the last one given is %d", ErrMap, member.RaftID, member.Node, r.RaftIDLast)
		case i > 0 && member.RaftID <= members[i-1].RaftID:
			return fmt.Errorf("%w: %s not in the order of raft ids", ErrMap, what)
		case slices.ContainsFunc(members[:i], member.SamePlace):
			return fmt.Errorf("%w: node %s is twice among the %s", ErrMap, member.Node, what)
		}
		full = full || member.Role == Full
	}
	if !full {
		return fmt.Errorf("%w: no full voter among the %s", ErrMap, what)
	}
	return nil
}

// ValidName reports whether s can be a node's id or a cluster's name: 1 to
// NodeBytesMax letters, digits, '-', '_' and '.', not starting with '.'.
func ValidName(s string) bool {
	if len(s) == 0 || len(s) > NodeBytesMax || s[0] == '.' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// ValidIncarnation reports whether s has the form of an incarnation: 32 lower-case
// hexadecimal digits.
func ValidIncarnation(s string) bool {
	if len(s) != IncarnationBytes {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}
