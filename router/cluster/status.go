package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

const reportTimeout = 3 * time.Second

// reports asks all nodes what they have.
func (r *Cluster) reports(ctx context.Context) map[string]*nodev1.ReportResponse {
	bounded, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	return r.fanout.Reports(bounded, &nodev1.ReportRequest{WithoutMap: true})
}

// withRefusing returns reports and those of nodes that live and could not report what they have: asked once more, for nothing but what
// they are themselves, one whose log has no room on the disk tells that it takes no writes. These have no groups, and say nothing of
// what is on the node.
func (r *Cluster) withRefusing(ctx context.Context, view *shardmap.View, reports map[string]*nodev1.ReportResponse) map[string]*nodev1.ReportResponse {
	silent := false
	for id := range view.Nodes {
		silent = silent || reports[id] == nil
	}
	if !silent {
		return reports
	}
	bounded, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	answers := maps.Clone(reports)
	for id, report := range r.fanout.Reports(bounded, &nodev1.ReportRequest{WithoutMap: true, WithoutGroups: true}) {
		if answers[id] == nil && report.GetRefusal() != "" {
			answers[id] = report
		}
	}
	return answers
}

// leaders returns who leads each shard, as far as the leaders say so: where two do, the one
// of the later era, and in one era of the higher term. A new era may begin with a low term.
func leaders(reports map[string]*nodev1.ReportResponse) map[uint16]*nodev1.GroupReport {
	led := map[uint16]*nodev1.GroupReport{}
	for _, id := range slices.Sorted(maps.Keys(reports)) {
		for _, g := range reports[id].GetGroups() {
			shard := uint16(g.GetShard())
			known := led[shard]
			if g.GetLeads() && (known == nil || cmp.Or(cmp.Compare(g.GetEra(), known.GetEra()), cmp.Compare(g.GetTerm(), known.GetTerm())) > 0) {
				g.Leader = id
				led[shard] = g
			}
		}
	}
	return led
}

// knownLeaders is what placement asks: who leads, by shard, where that may be changed for
// evenness, and which nodes should not lead. Placement's goroutine alone calls it.
func (r *Cluster) knownLeaders() shardmap.Leaders {
	reports := r.reports(context.Background())
	known := shardmap.Leaders{ByShard: map[uint16]string{}, Unfit: map[string]bool{}}
	for shard, g := range leaders(reports) {
		if !g.GetTookOver() {
			known.ByShard[shard] = g.GetLeader()
		}
	}
	r.refusers.note(reports, time.Now())
	for id := range r.view.Load().Nodes {
		known.Unfit[id] = reports[id] == nil || r.refusers.has(id)
	}
	return known
}

func (r *Cluster) transfer(ctx context.Context, t shardmap.Transfer) error {
	return r.fanout.TransferLeader(ctx, t.Shard, t.From, t.To)
}

// Status implements api.Cluster.
func (r *Cluster) Status(ctx context.Context, withoutShards bool) (*tickmeshv1.GetStatusResponse, error) {
	view := r.view.Load()
	status := &tickmeshv1.GetStatusResponse{Cluster: r.options.Cluster, StoreReachable: view.Err == nil}
	if view.Err != nil {
		status.Problems = append(status.Problems, fmt.Sprintf("the placement store: %v; all but placement works%s", view.Err, process.StoreAdvice(view.Err)))
	}
	if view.Map == nil {
		status.Problems = append(status.Problems, "there is no shard map yet")
		return status, nil
	}
	m := view.Map
	status.MapEpoch, status.Shards, status.Replication = m.Epoch, uint32(m.Settings.Shards), uint32(m.Settings.Replication)
	reports := r.reports(ctx)
	led := leaders(reports)
	answers := r.withRefusing(ctx, view, reports)
	status.Nodes = nodeStatuses(view, answers, led, r.lost.deadMs)
	moves := newMovement(m, reports, led)
	recoveries := withoutMajority(shardmap.Recoveries(m, copiesOf(reports)))
	under, leaderless := 0, 0
	for shard := range m.Rows {
		row := &m.Rows[shard]
		g := led[uint16(shard)]
		s := shardStatus(uint16(shard), row, g)
		if g == nil {
			leaderless++
		}
		if at := slices.IndexFunc(recoveries, func(r shardmap.Recovery) bool { return int(r.Shard) == shard }); at >= 0 {
			s.Recovery = recoveryStatus(&recoveries[at])
		}
		if fulls(s.GetMembers()) < m.Settings.Replication {
			under++
		}
		if !withoutShards {
			status.ShardStatuses = append(status.ShardStatuses, s)
		}
		status.Moves = append(status.Moves, moves.of(uint16(shard), row)...)
	}
	status.MovesAhead = moves.ahead(view, r.limits)
	status.Problems = append(status.Problems, lostProblems(status.Nodes, answers, r.limits.ReplaceAfterMs)...)
	status.Problems = append(status.Problems, recoveryProblems(recoveries)...)
	if leaderless > 0 {
		status.Problems = append(status.Problems, fmt.Sprintf("%d shards have no leader that answers", leaderless))
	}
	if under > 0 {
		status.Problems = append(status.Problems, fmt.Sprintf("%d shards have fewer than %d live copies", under, m.Settings.Replication))
	}
	status.Problems = append(status.Problems, nodeProblems(status.GetNodes(), answers)...)
	status.Problems = append(status.Problems, recoveredProblems(m, time.Now())...)
	return status, nil
}

// nodeProblems returns what nodes themselves say is wrong with them.
func nodeProblems(nodes []*tickmeshv1.NodeStatus, answers map[string]*nodev1.ReportResponse) (problems []string) {
	for _, n := range nodes {
		if n.GetRefusal() != "" {
			problems = append(problems, fmt.Sprintf("node %s takes no writes: %s", n.GetNode(), n.GetRefusal()))
		}
		for _, problem := range answers[n.GetNode()].GetProblems() {
			problems = append(problems, fmt.Sprintf("node %s: %s", n.GetNode(), problem))
		}
	}
	return problems
}

// fulls counts the full voters that are active.
func fulls(members []*tickmeshv1.ReplicaStatus) (n int) {
	for _, m := range members {
		if m.GetRole() == tickmeshv1.ReplicaRole_REPLICA_ROLE_FULL && m.GetActive() {
			n++
		}
	}
	return n
}

func nodeStatuses(view *shardmap.View, reports map[string]*nodev1.ReportResponse, led map[uint16]*nodev1.GroupReport, deadMs func(node string) uint64) (out []*tickmeshv1.NodeStatus) {
	names := map[string]bool{}
	for id := range view.Nodes {
		names[id] = true
	}
	for id := range view.Incarnations {
		names[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(names)) {
		info, alive := view.Nodes[id]
		n := &tickmeshv1.NodeStatus{
			Node: id, Incarnation: info.Incarnation, Address: info.RPCAddress, Zone: info.Zone, Alive: alive, Desired: desiredOf(view.Desired[id]),
			CapacityBytes: uint64(info.CapacityBytes), UsedBytes: uint64(info.UsedBytes), Version: info.Version, Refusal: reports[id].GetRefusal(),
			SamplesApplied: reports[id].GetSamplesApplied(),
		}
		if !alive {
			n.DeadMs = deadMs(id)
		}
		for _, g := range led {
			if g.GetLeader() == id {
				n.Leads++
			}
		}
		for _, p := range view.Map.MembersOn(id) {
			switch {
			case !p.Published || p.Role == shardmap.Learner:
				n.Learners++
			case p.Role == shardmap.Witness:
				n.Witnesses++
			default:
				n.FullReplicas++
			}
		}
		out = append(out, n)
	}
	return out
}

func desiredOf(d shardmap.Desired) tickmeshv1.DesiredState {
	switch d {
	case shardmap.Draining:
		return tickmeshv1.DesiredState_DESIRED_STATE_DRAINING
	case shardmap.Gone:
		return tickmeshv1.DesiredState_DESIRED_STATE_GONE
	case shardmap.Active:
	}
	return tickmeshv1.DesiredState_DESIRED_STATE_ACTIVE
}

// shardStatus is one row, with its leader's report of it.
func shardStatus(shard uint16, row *shardmap.Row, g *nodev1.GroupReport) *tickmeshv1.ShardStatus {
	s := &tickmeshv1.ShardStatus{
		Shard: uint32(shard), Version: row.Version, Era: row.Era, Leader: g.GetLeader(), Term: g.GetTerm(),
		CommitIndex: g.GetCommitIndex(), Members: g.GetMembers(), Bytes: g.GetBytes(), Intended: wire.ReplicaStatuses(row.Intended),
	}
	if was := row.Recovered; was != nil {
		s.RecoveredMs, s.RecoveredNewestMs, s.RecoveredLossMsMax = was.Ms, was.NewestMs, was.LossMsMax
	}
	if len(s.GetMembers()) == 0 {
		s.Members = wire.ReplicaStatuses(row.Members)
	}
	voters, active := 0, 0
	for _, m := range s.GetMembers() {
		if m.GetRole() != tickmeshv1.ReplicaRole_REPLICA_ROLE_LEARNER {
			voters++
			if m.GetActive() {
				active++
			}
		}
	}
	s.LossesSurvived = uint32(max(0, active-(voters/2+1)))
	return s
}

// Drain implements api.Cluster.
func (r *Cluster) Drain(ctx context.Context, node string, dryRun bool) (*tickmeshv1.DrainResponse, error) {
	view, err := r.options.Store.Load(ctx)
	if err != nil {
		return nil, err
	}
	if view.Map == nil || !knownNode(&view, node) {
		return nil, fmt.Errorf("%w: there is no node %q", wire.ErrNotFound, node)
	}
	if err := managed(&view, "kubectl tickmesh drain "+node); err != nil && !dryRun {
		return nil, err
	}
	reports := r.reports(ctx)
	rates := newMovement(view.Map, reports, leaders(reports)).rates()
	var tracker shardmap.Tracker
	forecast, err := shardmap.CheckDrain(tracker.Observe(view, time.Now().UnixMilli()), r.limits, rates, node)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrRefused, err)
	}
	response := &tickmeshv1.DrainResponse{TotalBytes: uint64(forecast.Bytes), DurationMs: uint64(forecast.Seconds) * 1000}
	for _, m := range forecast.Moves {
		response.Moves = append(response.Moves, &tickmeshv1.Move{
			Shard: uint32(m.Shard), FromNode: node, ToNode: m.Member.Node, TotalBytes: uint64(m.Bytes), Phase: "planned",
		})
	}
	if dryRun {
		return response, nil
	}
	return response, r.options.Store.SetDesired(ctx, node, shardmap.Draining)
}

// Undrain implements api.Cluster.
func (r *Cluster) Undrain(ctx context.Context, node string) error {
	view, err := r.options.Store.Load(ctx)
	if err != nil {
		return err
	}
	if !knownNode(&view, node) {
		return fmt.Errorf("%w: there is no node %q", wire.ErrNotFound, node)
	}
	if err := managed(&view, "kubectl tickmesh undrain "+node); err != nil {
		return err
	}
	return r.options.Store.SetDesired(ctx, node, shardmap.Active)
}

// managed refuses a change that only the cluster's manager may make, and names the
// command that asks it.
func managed(view *shardmap.View, command string) error {
	if view.Manager == "" {
		return nil
	}
	return fmt.Errorf("%w: %s says what is desired of the nodes of this cluster; use `%s`", wire.ErrRefused, view.Manager, command)
}

func knownNode(view *shardmap.View, node string) bool {
	_, live := view.Nodes[node]
	_, known := view.Incarnations[node]
	return live || known
}
