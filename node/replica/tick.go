package replica

import (
	"cmp"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

func (g *group) tickGroup() {
	if g.state == raft.StateLeader {
		g.tickLeader()
		return
	}
	g.elapsed++
	g.forgetIfDue()
	if g.elapsed >= g.timeout+g.extraTicks() {
		g.campaign()
	}
}

// snapshotTicks is how often, in election timeouts, a member that needs files is told.
const snapshotTicks = 4

func (g *group) tickLeader() {
	defer g.contain()
	g.vouch()
	g.leaveJoint()
	g.node.Tick()
	g.idle++
	g.mark()
	g.noteTransfer()
	if g.shared.ticks%(snapshotTicks*g.shared.config.ElectionTicks) == 0 {
		g.eachProgress(func(p MemberProgress) {
			if p.NeedsSnapshot && p.Member.RaftID != g.replica.RaftID {
				g.sendSnapshot(p.Member.RaftID)
			}
		})
	}
	if g.witness() || g.shared.refusesForLong() && g.shared.ticks >= g.refusedUntil {
		g.handOver()
	}
	if g.idle >= g.shared.config.HibernateTicks && !g.shared.refuses {
		g.hibernate()
	}
}

// briefRefusal is for how many election timeouts a node may take no writes and still lead: what has stalled mostly goes on at the first
// try again, and hundreds of groups that were handed over at once come back one after the other.
const briefRefusal = 2 // 0.8 s

// refusesForLong reports whether the node has taken no writes for longer than briefRefusal.
func (s *shared) refusesForLong() bool {
	return s.refuses && s.ticks-s.refusesSince >= briefRefusal*s.config.ElectionTicks
}

// refusedElections is for how many election timeouts a leader that takes no writes keeps its group when it has handed it over once and
// has it again: the heir may take none either, and nobody serves reads while a group goes to and fro.
const refusedElections = 20 // 8 s

// handOver transfers the leadership of who cannot serve to a full voter that has its log: to the next one by raft id, after its own at
// first and after the last heir then, so that all are tried where some cannot serve either.
func (g *group) handOver() {
	if !g.mayTransfer() {
		return
	}
	var first, next uint64 // raft ids; 0: none
	last := cmp.Or(g.lastHeir, g.replica.RaftID)
	g.eachProgress(func(p MemberProgress) {
		id := p.Member.RaftID
		if id == g.replica.RaftID || p.Member.Role != shardmap.Full || !p.Active || p.Match != g.log.last {
			return
		}
		if first == 0 {
			first = id
		}
		if next == 0 && id > last {
			next = id
		}
	})
	if heir := cmp.Or(next, first); heir != 0 {
		g.lastHeir = heir
		g.refusedUntil = g.shared.ticks + refusedElections*g.shared.config.ElectionTicks
		g.transfer(heir)
	}
}

// vouch reports to the library of a leader which members count as heard though their answers
// are not here yet: it asks after a fixed time whether a majority is, and would step down.
// It changes nothing of what is committed or read, which needs the answers themselves.
func (g *group) vouch() {
	if g.shared.peers.slowest == 0 || g.shared.ticks%(g.shared.config.ElectionTicks/2) != 0 {
		return
	}
	for _, m := range g.config.Members {
		p := g.shared.peers.find(m.Node)
		if m.RaftID == g.replica.RaftID || m.Role == shardmap.Learner || p == nil || p.silent || p.slow.extra == 0 {
			continue
		}
		// It is refused for who is no member any more; there is nothing to do then.
		_ = g.node.Step(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), To: new(g.replica.RaftID), From: new(m.RaftID), Term: new(g.term)})
	}
}
