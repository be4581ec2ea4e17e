package replica

import (
	"encoding/binary"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// Replica is this node's part in a group.
type Replica struct {
	Shard  uint16
	RaftID uint64
	Era    uint32
	// Role is what the replica has: Witness for a log only, else a log and data. A
	// future witness is one from the beginning, also while it is still a learner.
	Role shardmap.Role
}

// Configuration is who is in a group: as of the entry Index, and after it until
// another change.
type Configuration struct {
	Index   uint64
	Members []shardmap.Member // voters by their Role, the others learners; by raft id
	Leaving []shardmap.Member // while a joint change is under way: who is no member after it
	// Raft's own words for it; sorted. Outgoing is empty unless the change is joint.
	Voters, Outgoing, Learners, LearnersNext []uint64
	AutoLeave                                bool
}

// Joint reports whether the configuration is between two others.
func (c *Configuration) Joint() bool { return len(c.Outgoing) > 0 }

// GroupState is all of a replica that is durable and no entry. It is logged as a
// record of KindState, and again at each checkpoint (Host.State).
type GroupState struct {
	Replica
	Removed       bool // the replica is gone, and its raft id retired; the rest is zero
	Term          uint64
	Vote          uint64
	Commit        uint64 // known when it was written; may be behind
	Truncated     Position
	Configuration Configuration
	// Installing is not zero while the replica's files are swapped: it is unknown whether
	// the old ones are there or those of this snapshot. The engine's applied index tells.
	Installing SnapshotMeta
}

const stateVersion = 1

// AppendTo appends the state's encoding: version u8, then its fields as uvarints,
// lists and strings after their length.
func (s *GroupState) AppendTo(dst []byte) []byte {
	dst = append(dst, stateVersion)
	for _, v := range []uint64{uint64(s.Shard), s.RaftID, uint64(s.Era), uint64(s.Role), boolBit(s.Removed),
		s.Term, s.Vote, s.Commit, s.Truncated.Index, s.Truncated.Term} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = s.Configuration.appendTo(dst)
	dst = binary.AppendUvarint(dst, s.Installing.Index)
	if s.Installing.Index > 0 {
		dst = binary.AppendUvarint(dst, s.Installing.Term)
		dst = binary.AppendUvarint(dst, uint64(s.Installing.Era))
		dst = s.Installing.Configuration.appendTo(dst)
	}
	return dst
}

// ParseGroupState reads what AppendTo wrote. Error: ErrState.
func ParseGroupState(record []byte) (GroupState, error) {
	d := envelope.Decoder{Rest: record}
	if v := d.Byte(); v != stateVersion {
		return GroupState{}, fmt.Errorf("%w: version %d", ErrState, v)
	}
	var s GroupState
	s.Shard = uint16(d.UvarintMax(1<<16 - 1))
	s.RaftID = d.Uvarint()
	s.Era = uint32(d.UvarintMax(1<<32 - 1))
	s.Role = shardmap.Role(d.UvarintMax(uint64(shardmap.Learner)))
	s.Removed = d.UvarintMax(1) == 1
	s.Term, s.Vote, s.Commit = d.Uvarint(), d.Uvarint(), d.Uvarint()
	s.Truncated = Position{Index: d.Uvarint(), Term: d.Uvarint()}
	s.Configuration = readConfiguration(&d)
	if s.Installing.Index = d.Uvarint(); s.Installing.Index > 0 {
		s.Installing.Term = d.Uvarint()
		s.Installing.Era = uint32(d.UvarintMax(1<<32 - 1))
		s.Installing.Configuration = readConfiguration(&d)
	}
	if d.Broken || len(d.Rest) > 0 {
		return GroupState{}, ErrState
	}
	return s, nil
}

func (c *Configuration) appendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, c.Index)
	dst = appendMembers(dst, c.Members)
	dst = appendMembers(dst, c.Leaving)
	for _, ids := range [][]uint64{c.Voters, c.Outgoing, c.Learners, c.LearnersNext} {
		dst = binary.AppendUvarint(dst, uint64(len(ids)))
		for _, id := range ids {
			dst = binary.AppendUvarint(dst, id)
		}
	}
	return binary.AppendUvarint(dst, boolBit(c.AutoLeave))
}

func readConfiguration(d *envelope.Decoder) Configuration {
	var c Configuration
	c.Index = d.Uvarint()
	c.Members, c.Leaving = readMembers(d), readMembers(d)
	for _, ids := range []*[]uint64{&c.Voters, &c.Outgoing, &c.Learners, &c.LearnersNext} {
		for range d.UvarintMax(membersMax) {
			*ids = append(*ids, d.Uvarint())
		}
	}
	c.AutoLeave = d.UvarintMax(1) == 1
	return c
}

// membersMax bounds the members of a configuration, and of each of its lists.
const membersMax = 2 * shardmap.MembersMax

func appendMembers(dst []byte, members []shardmap.Member) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(members)))
	for _, m := range members {
		dst = envelope.AppendString(dst, m.Node)
		dst = envelope.AppendString(dst, m.Incarnation)
		dst = binary.AppendUvarint(dst, m.RaftID)
		dst = append(dst, byte(m.Role))
	}
	return dst
}

func readMembers(d *envelope.Decoder) []shardmap.Member {
	var out []shardmap.Member
	for range d.UvarintMax(membersMax) {
		m := shardmap.Member{Node: d.Text(), Incarnation: d.Text(), RaftID: d.Uvarint(), Role: shardmap.Role(d.Byte())}
		if m.Role < shardmap.Full || m.Role > shardmap.Learner || m.RaftID == 0 {
			d.Broken = true
		}
		if d.Broken {
			return nil
		}
		out = append(out, m)
	}
	return out
}

// confState returns the configuration in the library's words.
func (c *Configuration) confState() *pb.ConfState {
	return &pb.ConfState{
		Voters:         slices.Clone(c.Voters),
		VotersOutgoing: slices.Clone(c.Outgoing),
		Learners:       slices.Clone(c.Learners),
		LearnersNext:   slices.Clone(c.LearnersNext),
		AutoLeave:      new(c.AutoLeave),
	}
}

// adopt takes the library's words after a change at index to members.
func (c *Configuration) adopt(index uint64, state *pb.ConfState, members, leaving []shardmap.Member) {
	c.Index, c.Members, c.Leaving = index, members, leaving
	c.Voters, c.Outgoing = slices.Clone(state.GetVoters()), slices.Clone(state.GetVotersOutgoing())
	c.Learners, c.LearnersNext = slices.Clone(state.GetLearners()), slices.Clone(state.GetLearnersNext())
	c.AutoLeave = state.GetAutoLeave()
	for _, ids := range [][]uint64{c.Voters, c.Outgoing, c.Learners, c.LearnersNext} {
		slices.Sort(ids)
	}
}

// fresh is a group's first configuration.
func fresh(members []shardmap.Member) Configuration {
	var c Configuration
	c.Members = slices.Clone(members)
	shardmap.SortMembers(c.Members)
	for _, m := range c.Members {
		if m.Role.Votes() {
			c.Voters = append(c.Voters, m.RaftID)
		} else {
			c.Learners = append(c.Learners, m.RaftID)
		}
	}
	return c
}

// has reports whether the raft id is in the configuration, leaving ones included.
func (c *Configuration) has(id uint64) bool {
	return slices.Contains(c.Voters, id) || slices.Contains(c.Outgoing, id) || slices.Contains(c.Learners, id)
}

// isOnlyMember reports whether id is all there is.
func (c *Configuration) isOnlyMember(id uint64) bool {
	return len(c.Voters) == 1 && c.Voters[0] == id && len(c.Outgoing) == 0 && len(c.Learners) == 0
}

// member finds a member, leaving ones included.
func (c *Configuration) member(id uint64) (shardmap.Member, bool) {
	for _, list := range [2][]shardmap.Member{c.Members, c.Leaving} {
		for i := range list {
			if list[i].RaftID == id {
				return list[i], true
			}
		}
	}
	return shardmap.Member{}, false
}

// clone returns a copy that shares nothing with c.
func (c *Configuration) clone() Configuration {
	out := *c
	out.Members, out.Leaving = slices.Clone(c.Members), slices.Clone(c.Leaving)
	out.Voters, out.Outgoing = slices.Clone(c.Voters), slices.Clone(c.Outgoing)
	out.Learners, out.LearnersNext = slices.Clone(c.Learners), slices.Clone(c.LearnersNext)
	return out
}

func boolBit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
