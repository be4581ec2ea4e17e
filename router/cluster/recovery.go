package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// copies is what placement asks: what all nodes have.
func (r *Cluster) copies(ctx context.Context) []shardmap.NodeCopies {
	return copiesOf(r.reports(ctx))
}

// copiesOf reads the reports of nodes, in the order of their ids.
func copiesOf(reports map[string]*nodev1.ReportResponse) (out []shardmap.NodeCopies) {
	for _, id := range slices.Sorted(maps.Keys(reports)) {
		report := reports[id]
		n := shardmap.NodeCopies{
			Node: id, Incarnation: report.GetHello().GetIncarnation(), Former: report.GetFormerIncarnations(), SyncMs: int64(report.GetSyncMs()),
		}
		for _, g := range report.GetGroups() {
			n.Copies = append(n.Copies, copyOf(g, false))
		}
		for _, g := range report.GetRelics() {
			n.Copies = append(n.Copies, copyOf(g, true))
		}
		out = append(out, n)
	}
	return out
}

func copyOf(g *nodev1.GroupReport, quarantined bool) shardmap.Copy {
	return shardmap.Copy{
		Shard: uint16(g.GetShard()), RaftID: g.GetRaftId(), Era: g.GetEra(), Role: wire.RoleOf(g.GetRole()), Quarantined: quarantined, Unclear: g.GetUnclear(),
		Leads: g.GetLeads(), Term: g.GetLastTerm(), Index: g.GetLastIndex(), NewestMs: g.GetNewestMs(), ConfigIndex: g.GetMembersIndex(),
		Members: wire.MembersOf(g.GetMembers()), Leaving: wire.MembersOf(g.GetLeaving()), Outgoing: g.GetOutgoing(),
	}
}

// Recover implements api.Cluster.
func (r *Cluster) Recover(ctx context.Context, request *tickmeshv1.RecoverRequest) (*tickmeshv1.RecoverResponse, error) {
	view, err := r.options.Store.Load(ctx)
	if err != nil {
		return nil, err
	}
	if err := view.Overtaken(); err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrRefused, err)
	}
	if view.Map == nil {
		return nil, fmt.Errorf("%w: there is no shard map yet", wire.ErrRefused)
	}
	chosen, err := choose(shardmap.Recoveries(view.Map, r.copies(ctx)), request.GetShards())
	if err != nil {
		return nil, err
	}
	response := &tickmeshv1.RecoverResponse{}
	next := *view.Map
	for i := range chosen {
		response.Recoveries = append(response.Recoveries, recoveryStatus(&chosen[i]))
		if request.GetDryRun() {
			continue
		}
		if next, err = next.Recover(&chosen[i], time.Now().UnixMilli(), request.GetBeginEmpty()); err != nil {
			return nil, fmt.Errorf("%w: %w", wire.ErrRefused, err)
		}
	}
	if request.GetDryRun() || len(chosen) == 0 {
		return response, nil
	}
	next.Epoch = view.Map.Epoch + 1 // all in one step
	if err := r.options.Store.CompareAndSwap(ctx, view.Map.Epoch, next); err != nil {
		return nil, err
	}
	response.MapEpoch = next.Epoch
	for i := range chosen {
		r.options.Logger.Warn("a person's word lets a shard go on from one copy", "shard", chosen[i].Shard, "era", chosen[i].Era)
	}
	return response, nil
}

// withoutMajority returns the recoveries of shards that wait for more than an election.
func withoutMajority(found []shardmap.Recovery) []shardmap.Recovery {
	return slices.DeleteFunc(slices.Clone(found), func(r shardmap.Recovery) bool { return r.Electable })
}

// choose returns the recoveries of some shards; if none is named, of all without a majority.
func choose(found []shardmap.Recovery, shards []uint32) ([]shardmap.Recovery, error) {
	if len(shards) == 0 {
		return withoutMajority(found), nil
	}
	var chosen []shardmap.Recovery
	for _, shard := range shards {
		at := slices.IndexFunc(found, func(r shardmap.Recovery) bool { return uint32(r.Shard) == shard })
		if at < 0 {
			return nil, fmt.Errorf("%w: %w: shard %d has a leader", wire.ErrRefused, shardmap.ErrNotLost, shard)
		}
		if !slices.ContainsFunc(chosen, func(r shardmap.Recovery) bool { return uint32(r.Shard) == shard }) {
			chosen = append(chosen, found[at])
		}
	}
	return chosen, nil
}

// recoveryStatus is a recovery as a message.
func recoveryStatus(r *shardmap.Recovery) *tickmeshv1.ShardRecovery {
	s := &tickmeshv1.ShardRecovery{Shard: uint32(r.Shard), WaitsFor: waitsFor(r), Automatic: r.Automatic(), Lost: r.Lost, LossMsMax: r.LossMsMax}
	for i := range r.Copies {
		c := &r.Copies[i]
		s.Copies = append(s.Copies, &tickmeshv1.ShardCopy{
			Node: c.Node, Role: wire.RoleStatus(c.Role), Relic: c.Quarantined, Era: c.Era, Term: c.Term, Index: c.Index, Unclear: c.Unclear,
		})
	}
	if r.Best != nil {
		s.Best, s.NewestMs = r.Best.Node, r.Best.NewestMs
	}
	return s
}

func waitsFor(r *shardmap.Recovery) (nodes []string) {
	for _, m := range r.Missing {
		if !slices.Contains(nodes, m.Node) {
			nodes = append(nodes, m.Node)
		}
	}
	return nodes
}

// recoveryProblems describes shards without a majority, those that are alike together.
func recoveryProblems(found []shardmap.Recovery) (problems []string) {
	texts, shards := []string{}, map[string][]int{}
	for i := range found {
		text := recoveryText(&found[i])
		if shards[text] == nil {
			texts = append(texts, text)
		}
		shards[text] = append(shards[text], int(found[i].Shard))
	}
	for _, text := range texts {
		problems = append(problems, fmt.Sprintf("no majority of shards %s: %s", numbers(shards[text]), text))
	}
	return problems
}

func recoveryText(r *shardmap.Recovery) string {
	var copies []string
	for i := range r.Copies {
		c := &r.Copies[i]
		what := c.Node
		switch {
		case c.Unclear:
			what += " (unclear)"
		case c.Role == shardmap.Witness && c.Quarantined:
			what += " (witness, quarantined)"
		case c.Role == shardmap.Witness:
			what += " (witness)"
		case c.Quarantined:
			what += " (quarantined)"
		}
		copies = append(copies, what)
	}
	text := "no copy is there"
	if len(copies) > 0 {
		text = "copies on " + strings.Join(copies, ", ")
	}
	waits := strings.Join(waitsFor(r), ", ")
	switch {
	case r.Automatic():
		text += "; goes on by itself from the best of them"
	case r.Best == nil && waits == "":
		text += "; waits for `tickmesh recover --begin-empty`"
	case r.Best == nil:
		text += "; waits for " + waits
	case waits != "":
		text += "; waits for " + waits + " or `tickmesh recover`"
	default:
		text += "; waits for its voters or `tickmesh recover`"
	}
	if r.Best == nil {
		return text
	}
	return text + "; lost is then " + lossText(0, r.LossMsMax)
}

// lossText returns which writes are lost when a shard goes on from one copy. NewestMs is when
// the newest of it was written; 0: not known, or not told.
func lossText(newestMs, lossMsMax int64) string {
	text := "what was answered and is in no copy there"
	if newestMs > 0 {
		text = "what was answered after " + time.UnixMilli(newestMs).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	if lossMsMax > 0 {
		text += fmt.Sprintf(", at most of the last %s before the power cut", time.Duration(lossMsMax)*time.Millisecond)
	}
	return text
}

// recoveredShown is for how long a shard that went on from one copy is told of.
const recoveredShown = 7 * 24 * time.Hour

// recoveredProblems describes what was lost not long ago.
func recoveredProblems(m *shardmap.Map, now time.Time) (problems []string) {
	texts, shards := []string{}, map[string][]int{}
	for shard := range m.Rows {
		was := m.Rows[shard].Recovered
		if was == nil || now.Sub(time.UnixMilli(was.Ms)) > recoveredShown {
			continue
		}
		text := fmt.Sprintf("%s, from the copy of %s: lost is ", time.UnixMilli(was.Ms).UTC().Format(time.RFC3339), was.Node)
		text += lossText(was.NewestMs, was.LossMsMax)
		if shards[text] == nil {
			texts = append(texts, text)
		}
		shards[text] = append(shards[text], shard)
	}
	for _, text := range texts {
		problems = append(problems, fmt.Sprintf("shards %s had lost their majority and went on, %s", numbers(shards[text]), text))
	}
	return problems
}

// numbers words growing numbers shortly: 0-3, 7.
func numbers(growing []int) string {
	var parts []string
	for i := 0; i < len(growing); {
		j := i
		for j+1 < len(growing) && growing[j+1] == growing[j]+1 {
			j++
		}
		part := strconv.Itoa(growing[i])
		if j > i {
			part += "-" + strconv.Itoa(growing[j])
		}
		parts, i = append(parts, part), j+1
	}
	return strings.Join(parts, ", ")
}
