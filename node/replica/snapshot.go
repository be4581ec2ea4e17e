package replica

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// SnapshotMeta is what goes with the files of a shard: the entry that they stand for,
// and the configuration, which may be a later one.
type SnapshotMeta struct {
	Position
	Era           uint32
	Configuration Configuration
}

// AppendTo appends the meta's encoding.
func (s *SnapshotMeta) AppendTo(dst []byte) []byte {
	state := GroupState{Replica: Replica{Era: s.Era}, Truncated: s.Position, Configuration: s.Configuration}
	return state.AppendTo(dst)
}

// ParseSnapshotMeta reads what AppendTo wrote. Error: ErrState.
func ParseSnapshotMeta(b []byte) (SnapshotMeta, error) {
	state, err := ParseGroupState(b)
	return SnapshotMeta{Position: state.Truncated, Era: state.Era, Configuration: state.Configuration}, err
}

// sendSnapshot notifies a member that it needs files, and from which index on.
func (g *group) sendSnapshot(to uint64) {
	at := g.log.truncated
	if at.Index == 0 { // an empty learner of a whole log: anything will do
		term, err := g.log.term(1)
		if err != nil || g.handed == 0 {
			return
		}
		at = Position{Index: 1, Term: term}
	}
	meta := SnapshotMeta{Position: at, Era: g.replica.Era, Configuration: g.config}
	g.send(&envelope.Message{Kind: envelope.Snapshot, Shard: g.replica.Shard, To: to, From: g.replica.RaftID, Term: g.term,
		LogTerm: at.Term, Index: at.Index, Context: meta.AppendTo(nil)}, false)
}

// sendConfiguration sends to a voter, whose log is empty for all that is known, the present
// configuration, if the log is whole. No entry has the one that the group began with, and a
// member that came late to a fresh group does not know it; when nothing is committed yet, or
// nobody who has data is there, there are no files to learn one from either.
func (g *group) sendConfiguration(to uint64) {
	if g.log.truncated.Index != 0 || !slices.Contains(g.config.Voters, to) {
		return
	}
	meta := SnapshotMeta{Era: g.replica.Era, Configuration: g.config}
	g.send(&envelope.Message{Kind: envelope.Snapshot, Shard: g.replica.Shard, To: to, From: g.replica.RaftID, Term: g.term,
		Context: meta.AppendTo(nil)}, true)
}

// takeConfiguration takes a configuration as if this replica had been made with it: its log is
// empty, and the entries come from the first one on. Changes among them up to the
// configuration's index are in it already, as with files.
func (g *group) takeConfiguration(meta *SnapshotMeta) {
	c := &meta.Configuration
	self, named := c.member(g.replica.RaftID)
	if len(g.config.Voters) > 0 || g.log.last > 0 || g.handed > 0 || meta.Era != g.replica.Era || c.Joint() ||
		!named || self.Role != g.replica.Role {
		return
	}
	add := func(kind pb.ConfChangeType, ids []uint64) {
		for _, id := range ids {
			g.node.ApplyConfChange(&pb.ConfChange{Type: kind.Enum(), NodeId: new(id)})
		}
	}
	add(pb.ConfChangeAddNode, c.Voters)
	add(pb.ConfChangeAddLearnerNode, c.Learners)
	g.config = c.clone()
	g.shared.membersChanged = true
	g.logState(true)
}

// takeSnapshot handles a leader's notice that its log begins after index.
func (g *group) takeSnapshot(m *envelope.Message) {
	meta, err := ParseSnapshotMeta(m.Context)
	if err != nil || g.installing != nil {
		return
	}
	if m.Index == 0 {
		g.takeConfiguration(&meta)
		return
	}
	if len(g.config.Voters) > 0 && (m.Index <= g.commit || g.logHas(meta.Position)) {
		// It has all of that: the library answers with what it has. An entry that the leader has
		// trimmed is committed, which no files are needed for to learn.
		_ = g.node.Step(snapshotMessage(&meta, m.From, m.To, m.Term, m.Index))
		g.mark()
		return
	}
	if g.witness() {
		if g.prepareSnapshot(meta) == nil {
			g.announce = false
			_ = g.install(meta) // refused, the leader tells again
		}
		return
	}
	g.shared.next.snapshots = append(g.shared.next.snapshots, SnapshotNeed{Shard: g.replica.Shard, Leader: g.nodeOf(m.From), Index: m.Index})
}

func snapshotMessage(meta *SnapshotMeta, from, to, term, index uint64) *pb.Message {
	return &pb.Message{Type: pb.MsgSnap.Enum(), To: new(to), From: new(from), Term: new(term),
		Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
			ConfState: meta.Configuration.confState(), Index: new(index), Term: new(meta.Term)}}}
}

// install hands the library a snapshot. It comes from the leader, or, if none is known,
// as if from some other voter, which ignores the answer.
func (g *group) install(meta SnapshotMeta) (err error) {
	from := g.lead
	if from == raft.None {
		for _, m := range meta.Configuration.Members {
			if m.RaftID != g.replica.RaftID && m.Role.Votes() {
				from = m.RaftID
			}
		}
	}
	if from == raft.None {
		g.installing = nil
		return fmt.Errorf("%w: shard %d has no other voter", ErrSnapshot, g.replica.Shard)
	}
	defer g.contain()
	known := g.lead
	g.applied, g.handed = max(g.applied, meta.Index), max(g.handed, meta.Index)
	g.installed = true
	g.backlog.shrink(g.applied)
	_ = g.node.Step(snapshotMessage(&meta, from, g.replica.RaftID, max(g.term, meta.Term), meta.Index))
	if known == raft.None {
		g.forgetLeader()
	}
	g.mark()
	return nil
}

// noteInstalled ends the swap of files. If the library has no snapshot, its log goes
// on beyond the files and stays.
func (g *group) noteInstalled(snapshot *pb.Snapshot) (changed bool) {
	if !raft.IsEmptySnap(snapshot) {
		g.noteSnapshot(snapshot)
		changed = true
	}
	if g.installed {
		g.installing, g.installed = nil, false
	}
	return changed
}

// noteSnapshot takes over a snapshot that the library has accepted.
func (g *group) noteSnapshot(snapshot *pb.Snapshot) {
	meta := g.installing
	at := Position{Index: snapshot.GetMetadata().GetIndex(), Term: snapshot.GetMetadata().GetTerm()}
	if meta == nil || meta.Position != at {
		panic(libraryFault("a snapshot that nobody installed"))
	}
	g.log.restart(at)
	g.config = meta.Configuration.clone()
	g.replica.Era = meta.Era
	g.handed, g.cursor = max(g.handed, at.Index), at.Index
	g.takeRole()
	g.shared.membersChanged = true
}

// prepareSnapshot begins the swap of files. See Host.PrepareSnapshot.
func (g *group) prepareSnapshot(meta SnapshotMeta) error {
	if g.installing != nil {
		return ErrBusy
	}
	if g.leads() || meta.Index <= max(g.commit, g.handed) || !meta.Configuration.has(g.replica.RaftID) {
		return fmt.Errorf("%w: shard %d is at %d, the snapshot at %d", ErrSnapshot, g.replica.Shard, g.commit, meta.Index)
	}
	g.installing, g.announce = &meta, true
	g.logState(true)
	return nil
}

// installSnapshot notes that the files are in place. See Host.InstallSnapshot.
func (g *group) installSnapshot(meta SnapshotMeta) error {
	if g.installing == nil || g.announce || g.installed || g.installing.Position != meta.Position || g.leads() {
		return fmt.Errorf("%w: shard %d expects no such snapshot", ErrSnapshot, g.replica.Shard)
	}
	return g.install(meta)
}
