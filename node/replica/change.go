package replica

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Change asks the leader to bring its group to the configuration target: in one step
// if at most one vote changes and nothing else, else through a joint configuration
// that the leader leaves by itself. Nothing comes back: look at the Status. It may be
// lost with the leader; repeat it. Errors: NotLeaderError, ErrBusy (another change, a
// transfer or a sync is under way), ErrArgument, ErrNoGroup, ErrFault.
func (h *Host) Change(shard uint16, target []shardmap.Member) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	if !g.leads() {
		return g.notLeader()
	}
	if g.config.Joint() || g.change != nil || g.transferee != raft.None || g.hold.round != 0 {
		return ErrBusy
	}
	target = slices.Clone(target)
	shardmap.SortMembers(target)
	change, err := g.changeTo(target)
	if err != nil || change == nil {
		return err
	}
	if g.lone {
		g.change = change
		h.mark(g)
		return nil
	}
	return h.proposeChange(g, change)
}

// changeTo returns the change from the present members to target; nil if there is none.
func (g *group) changeTo(target []shardmap.Member) (*pb.ConfChangeV2, error) {
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

func (h *Host) proposeChange(g *group, change *pb.ConfChangeV2) error {
	defer h.contain(g)
	if size := proto.Size(change); size > contextBytesMax {
		return fmt.Errorf("%w: a change of %d bytes", ErrArgument, size)
	}
	h.wake(g)
	if err := g.node.ProposeConfChange(change); err != nil {
		return ErrBusy
	}
	h.mark(g)
	return nil
}

// Transfer asks the leader to hand its group to the replica on node. It takes at most
// an election timeout, in which proposals are refused with ErrBusy. A full voter that
// is asked to have the group handed to itself asks the leader, which may refuse. Errors:
// NotLeaderError, ErrBusy, ErrArgument (no full voter there), ErrNoGroup, ErrFault.
func (h *Host) Transfer(shard uint16, node string) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	if !g.leads() {
		if node == h.config.Node && g.replica.Role == shardmap.Full {
			return h.askToLead(g)
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
		if g.transferee != raft.None {
			return ErrBusy
		}
		h.transfer(g, m.RaftID)
		return nil
	}
	return fmt.Errorf("%w: no full voter of shard %d on node %s", ErrArgument, shard, node)
}

func (h *Host) transfer(g *group, id uint64) {
	defer h.contain(g)
	h.wake(g)
	g.transferee, g.transferAt = id, h.ticks+h.config.ElectionTicks
	g.node.TransferLeader(id)
	h.mark(g)
}
