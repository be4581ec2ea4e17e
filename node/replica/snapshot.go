package replica

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
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

// SnapshotMeta gives what goes with files that hold all entries up to index. Errors:
// ErrTruncated (the log has no such entry any more, or not yet), ErrNoGroup, ErrFault.
func (h *Host) SnapshotMeta(shard uint16, index uint64) (SnapshotMeta, error) {
	g, err := h.working(shard)
	if err != nil {
		return SnapshotMeta{}, err
	}
	term, err := g.log.term(index)
	if err != nil || index > g.cursor {
		return SnapshotMeta{}, fmt.Errorf("%w: shard %d, index %d", ErrTruncated, shard, index)
	}
	return SnapshotMeta{Position: Position{index, term}, Era: g.replica.Era, Configuration: g.config.clone()}, nil
}

// sendSnapshot tells a member that it needs files, and from which index on.
func (h *Host) sendSnapshot(g *group, to uint64) {
	at := g.log.truncated
	if at.Index == 0 { // an empty learner of a whole log: anything will do
		term, err := g.log.term(1)
		if err != nil || g.handed == 0 {
			return
		}
		at = Position{Index: 1, Term: term}
	}
	meta := SnapshotMeta{Position: at, Era: g.replica.Era, Configuration: g.config}
	h.send(g, &message{kind: typeSnapshot, shard: g.replica.Shard, to: to, from: g.replica.RaftID, term: g.term,
		logTerm: at.Term, index: at.Index, context: meta.AppendTo(nil)}, false)
}

// sendFirst tells a voter, whose log is empty for all that is known, the configuration that
// the group began with. No entry has it, and a member that came late does not know it; when
// nothing is committed yet there are no files to learn it from either.
func (h *Host) sendFirst(g *group, to uint64) {
	if g.config.Index != 0 || g.log.truncated.Index != 0 || !slices.Contains(g.config.Voters, to) {
		return
	}
	meta := SnapshotMeta{Era: g.replica.Era, Configuration: g.config}
	h.send(g, &message{kind: typeSnapshot, shard: g.replica.Shard, to: to, from: g.replica.RaftID, term: g.term,
		context: meta.AppendTo(nil)}, true)
}

// takeFirst takes the configuration that the group began with, as if this replica had been
// made with it: its log is empty, and the entries come from the first one on.
func (h *Host) takeFirst(g *group, meta *SnapshotMeta) {
	c := &meta.Configuration
	self, named := c.member(g.replica.RaftID)
	if len(g.config.Voters) > 0 || g.log.last > 0 || g.handed > 0 || meta.Era != g.replica.Era || c.Index != 0 || c.Joint() ||
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
	h.countPeers()
	h.logState(g, true)
}

// takeSnapshot hears that the leader's log begins after index.
func (h *Host) takeSnapshot(g *group, m *message) {
	meta, err := ParseSnapshotMeta(m.context)
	if err != nil || g.installing != nil {
		return
	}
	if m.index == 0 {
		h.takeFirst(g, &meta)
		return
	}
	if len(g.config.Voters) > 0 && m.index <= g.commit {
		// It has all of that: the library answers with what it has.
		_ = g.node.Step(snapshotMessage(&meta, m.from, m.to, m.term, m.index))
		h.mark(g)
		return
	}
	if g.witness() {
		if h.PrepareSnapshot(g.replica.Shard, meta) == nil {
			g.announce = false
			_ = h.install(g, meta) // refused, the leader tells again
		}
		return
	}
	h.snapshots = append(h.snapshots, SnapshotNeed{Shard: g.replica.Shard, Leader: g.nodeOf(m.from), Index: m.index})
}

func snapshotMessage(meta *SnapshotMeta, from, to, term, index uint64) *pb.Message {
	return &pb.Message{Type: pb.MsgSnap.Enum(), To: new(to), From: new(from), Term: new(term),
		Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
			ConfState: meta.Configuration.confState(), Index: new(index), Term: new(meta.Term)}}}
}

// PrepareSnapshot begins the swap of a replica's files: until InstallSnapshot or
// AbortSnapshot no further entry is taken or given out. The files may be swapped when a
// Round names the shard as Prepared, and that Round and all Committed before are done
// with: the log then says that a swap is under way, and a start after a crash looks at
// what the engine has. Errors: ErrSnapshot (the replica has as much, leads, or is not in
// the configuration), ErrBusy, ErrNoGroup, ErrFault.
func (h *Host) PrepareSnapshot(shard uint16, meta SnapshotMeta) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	if g.installing != nil {
		return ErrBusy
	}
	if g.leads() || meta.Index <= max(g.commit, g.handed) || !meta.Configuration.has(g.replica.RaftID) {
		return fmt.Errorf("%w: shard %d is at %d, the snapshot at %d", ErrSnapshot, shard, g.commit, meta.Index)
	}
	g.installing, g.announce = &meta, true
	h.logState(g, true)
	return nil
}

// AbortSnapshot ends what PrepareSnapshot began: the old files are still there.
func (h *Host) AbortSnapshot(shard uint16) {
	if g := h.group(shard); g != nil && g.installing != nil && !g.installed {
		g.installing, g.announce = nil, false
		h.logState(g, false)
	}
}

// InstallSnapshot says that the files which meta belongs to are in place. The next
// Round has the state that begins after them. Errors: ErrSnapshot (the shard was not
// Prepared for it, or the group has gone on), ErrNoGroup, ErrFault.
func (h *Host) InstallSnapshot(shard uint16, meta SnapshotMeta) error {
	g, err := h.working(shard)
	if err != nil {
		return err
	}
	if g.installing == nil || g.announce || g.installed || g.installing.Position != meta.Position || g.leads() {
		return fmt.Errorf("%w: shard %d expects no such snapshot", ErrSnapshot, shard)
	}
	return h.install(g, meta)
}

// install gives the library a snapshot. It comes from the leader, or, if none is known,
// as if from some other voter, which ignores the answer.
func (h *Host) install(g *group, meta SnapshotMeta) (err error) {
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
	defer h.contain(g)
	known := g.lead
	g.applied, g.handed = max(g.applied, meta.Index), max(g.handed, meta.Index)
	g.installed = true
	g.shrinkBacklog()
	_ = g.node.Step(snapshotMessage(&meta, from, g.replica.RaftID, max(g.term, meta.Term), meta.Index))
	if known == raft.None {
		h.forgetLeader(g)
	}
	h.mark(g)
	return nil
}

// noteInstalled ends the swap of files. If the library gives no snapshot, its log goes
// on beyond the files and stays.
func (h *Host) noteInstalled(g *group, snapshot *pb.Snapshot) (changed bool) {
	if !raft.IsEmptySnap(snapshot) {
		h.noteSnapshot(g, snapshot)
		changed = true
	}
	if g.installed {
		g.installing, g.installed = nil, false
	}
	return changed
}

// noteSnapshot takes over a snapshot that the library has accepted.
func (h *Host) noteSnapshot(g *group, snapshot *pb.Snapshot) {
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
	h.countPeers()
}
