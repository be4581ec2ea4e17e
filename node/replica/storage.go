package replica

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// storage implements raft.Storage on a group's log.
type storage struct{ g *group }

func (s *storage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	hard := &pb.HardState{Term: new(s.g.term), Vote: new(s.g.vote), Commit: new(s.g.commit)}
	return hard, s.g.config.confState(), nil
}

// Entries returns what there is room for (laggingReads), but without a bound what is not given out yet: after
// a start the library hands it out, and looks through it before it campaigns, and takes nothing for a fault.
func (s *storage) Entries(lo, hi, bytesMax uint64) ([]*pb.Entry, error) {
	bound := &s.g.shared.lagging
	if lo > s.g.advanced {
		bound = nil
	}
	return s.g.log.entries(lo, hi, bytesMax, bound)
}

func (s *storage) Term(index uint64) (uint64, error) { return s.g.log.term(index) }

func (s *storage) LastIndex() (uint64, error) { return s.g.log.last, nil }

func (s *storage) FirstIndex() (uint64, error) { return s.g.log.truncated.Index + 1, nil }

// Snapshot returns the truncation. A member goes on from any files that have it or more.
func (s *storage) Snapshot() (*pb.Snapshot, error) {
	if s.g.log.truncated.Index == 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
		ConfState: s.g.config.confState(),
		Index:     new(s.g.log.truncated.Index),
		Term:      new(s.g.log.truncated.Term),
	}}, nil
}
