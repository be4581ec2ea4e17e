package service

import (
	"context"

	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// Report implements rpc.Node.
func (s *Service) Report(_ context.Context, request *nodev1.ReportRequest) (*nodev1.ReportResponse, error) {
	r := &nodev1.ReportResponse{
		UptimeMs: uint64(max(0, s.options.Now().Sub(s.started).Milliseconds())), Version: s.options.Version,
	}
	if m := s.options.Map(); m != nil {
		r.MapEpoch = m.Epoch
		if !request.GetWithoutMap() {
			encoded, err := m.Encode()
			if err != nil {
				return nil, err
			}
			r.Map = encoded
		}
	}
	if err := s.node.Health(); err != nil {
		r.Refusal = err.Error()
	}
	r.Problems = s.node.Problems()
	r.CapacityBytes, r.UsedBytes = s.options.Disk()
	r.MoveBytesPerSecond = s.options.MoveBytesPerSecond
	r.SamplesApplied = uint64(max(0, s.node.SamplesApplied()))
	if request.GetWithoutGroups() {
		return r, nil
	}
	copies, err := s.node.Copies() // before the groups: a quarantined replica that goes on meanwhile is told twice, not left out
	if err != nil {
		return nil, err
	}
	statuses, err := s.node.Groups()
	if err != nil {
		return nil, err
	}
	for i := range statuses {
		r.Groups = append(r.Groups, groupReport(&statuses[i]))
	}
	addCopies(r, &copies)
	return r, nil
}

func groupReport(g *node.GroupStatus) *nodev1.GroupReport {
	r := &nodev1.GroupReport{
		Shard: uint32(g.Shard), RaftId: g.RaftID, Role: wire.RoleStatus(g.Role), Era: g.Era, Leader: g.Leader, Leads: g.Leads,
		Term: g.Term, LastIndex: g.Last, CommitIndex: g.Commit, AppliedIndex: g.EngineApplied, TruncatedIndex: g.Truncated.Index,
		MembersIndex: g.Configuration.Index, Joint: g.Configuration.Joint(), Bytes: uint64(g.Bytes), Quiet: g.Hibernating,
		LastTerm: g.LastTerm, TookOver: g.TookOver,
	}
	if f := g.Fetch; f != nil {
		r.Fetch = &nodev1.FetchProgress{
			FromNode: f.FromNode, DoneBytes: uint64(f.DoneBytes), TotalBytes: uint64(f.TotalBytes), BytesPerSecond: uint64(f.BytesPerSecond),
		}
	}
	for _, m := range g.Configuration.Members {
		status := wire.ReplicaStatus(m)
		for _, p := range g.Progress {
			if p.Member.RaftID == m.RaftID {
				status.MatchIndex, status.Active = p.Match, p.Active
			}
		}
		r.Members = append(r.Members, status)
	}
	return r
}
