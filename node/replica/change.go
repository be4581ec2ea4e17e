package replica

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// planChange returns the change from the present members to target; nil if there is none.
func (g *group) planChange(target []shardmap.Member) (*pb.ConfChangeV2, error) {
	if len(target) > shardmap.MembersMax {
		return nil, fmt.Errorf("%w: %d members", ErrArgument, len(target))
	}
	change := &pb.ConfChangeV2{Context: appendMembers(nil, target)}
	step := func(kind pb.ConfChangeType, id uint64) {
		change.Changes = append(change.Changes, &pb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)})
	}
	votes := 0
	for i, m := range target {
		if m.RaftID == 0 || m.Node == "" || m.Role < shardmap.Full || m.Role > shardmap.Learner || i > 0 && target[i-1].RaftID == m.RaftID {
			return nil, fmt.Errorf("%w: member %+v", ErrArgument, m)
		}
		if m.Role.Votes() {
			votes++
		}
		old, known := g.config.member(m.RaftID)
		switch {
		case known && (!old.SamePlace(m) || old.Role.Votes() && m.Role != old.Role):
			return nil, fmt.Errorf("%w: raft id %d is %+v and cannot become %+v", ErrArgument, m.RaftID, old, m)
		case known && old.Role == m.Role:
		case m.Role.Votes():
			step(pb.ConfChangeAddNode, m.RaftID)
		default:
			step(pb.ConfChangeAddLearnerNode, m.RaftID)
		}
	}
	if votes == 0 {
		return nil, fmt.Errorf("%w: a group without a vote", ErrArgument)
	}
	for _, m := range g.config.Members {
		if !slices.ContainsFunc(target, m.SameReplica) {
			step(pb.ConfChangeRemoveNode, m.RaftID)
		}
	}
	if len(change.Changes) == 0 {
		return nil, nil
	}
	return change, nil
}

func (g *group) proposeChange(change *pb.ConfChangeV2) error {
	defer g.contain()
	if size := proto.Size(change); size > envelope.ContextBytesMax {
		return fmt.Errorf("%w: a change of %d bytes", ErrArgument, size)
	}
	g.wake()
	if err := g.node.ProposeConfChange(change); err != nil {
		return ErrBusy
	}
	g.mark()
	return nil
}

// leaveJoint ends a joint change that the library has left open. It ends one as soon as that is
// applied, unless the leadership is being transferred then, and looks again only when a
// further entry is applied: in a group that nobody writes to, after a transfer that came to
// nothing, that may be never.
func (g *group) leaveJoint() {
	if !g.config.Joint() || g.transferee != raft.None || g.advanced != g.log.last || g.node.HasReady() {
		return
	}
	_ = g.node.ProposeConfChange(&pb.ConfChangeV2{}) // refused, it is proposed with the next tick
}

// changeTo brings the group that g leads to the configuration target. See Host.Change.
func (g *group) changeTo(target []shardmap.Member) error {
	if !g.leads() {
		return g.notLeader()
	}
	if g.config.Joint() || g.change != nil || g.transferee != raft.None || g.hold.round != 0 {
		return ErrBusy
	}
	target = slices.Clone(target)
	shardmap.SortMembers(target)
	change, err := g.planChange(target)
	if err != nil || change == nil {
		return err
	}
	if g.single {
		g.change = change
		g.mark()
		return nil
	}
	return g.proposeChange(change)
}

// transferTo hands the group to the replica on node. See Host.Transfer.
func (g *group) transferTo(node string) error {
	if !g.leads() {
		if node == g.shared.config.Node && g.replica.Role == shardmap.Full {
			return g.askToLead()
		}
		return g.notLeader()
	}
	for _, m := range g.config.Members {
		if m.Node != node || m.Role != shardmap.Full {
			continue
		}
		if m.RaftID == g.replica.RaftID {
			return nil
		}
		if !g.mayTransfer() {
			return ErrBusy
		}
		g.transfer(m.RaftID)
		return nil
	}
	return fmt.Errorf("%w: no full voter of shard %d on node %s", ErrArgument, g.replica.Shard, node)
}
