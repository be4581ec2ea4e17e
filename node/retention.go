package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// retentionUnit is what cuts are rounded down to: the narrowest partition.
const retentionUnit = 2 * segment.HourMs

func retentionCut(now time.Time, retention time.Duration) int64 {
	cutMs := now.Add(-retention).UnixMilli()
	rest := cutMs % retentionUnit
	if rest < 0 {
		rest += retentionUnit
	}
	return cutMs - rest
}

// retentionPlan is what shards should have cut off by now.
type retentionPlan struct {
	wholeMs int64           // of all series, so that whole segments can go; NoCut: nothing
	rules   *retention.Cuts // of some series; nil: there are no rules
}

// keepMs returns for how long samples are kept that are kept the longest; 0: for ever.
func (p retentionPlan) keepMs(now time.Time) int64 {
	if p.wholeMs == retention.NoCut {
		return 0
	}
	return now.UnixMilli() - p.wholeMs
}

// firstMs returns the earliest cut; NoCut: nothing is cut.
func (p retentionPlan) firstMs() int64 {
	cuts := []int64{p.wholeMs}
	if p.rules != nil {
		cuts = append(cuts, p.rules.OtherMs)
		for i := range p.rules.Rules {
			cuts = append(cuts, p.rules.Rules[i].CutMs)
		}
	}
	cuts = slices.DeleteFunc(cuts, func(cutMs int64) bool { return cutMs == retention.NoCut })
	if len(cuts) == 0 {
		return retention.NoCut
	}
	return slices.Min(cuts)
}

// planRetention follows the first rule that matches a series, else the node's own
// retention, 0 for ever.
func planRetention(rules []tenancy.RetentionRule, otherwise time.Duration, now time.Time) retentionPlan {
	cutOf := func(keep time.Duration) int64 {
		if keep <= 0 {
			return retention.NoCut
		}
		return retentionCut(now, keep)
	}
	plan := retentionPlan{wholeMs: cutOf(otherwise)}
	if len(rules) == 0 {
		return plan
	}
	plan.rules = &retention.Cuts{OtherMs: plan.wholeMs}
	for _, r := range rules {
		cutMs := cutOf(r.Retention)
		plan.rules.Rules = append(plan.rules.Rules, retention.Cut{Database: r.Database, Metric: r.Metric, CutMs: cutMs})
		plan.wholeMs = min(plan.wholeMs, cutMs)
	}
	return plan
}

// rules returns the rules of databases as they are now.
func (n *Node) rules() *tenancy.Rules {
	if n.options.Rules == nil {
		return nil
	}
	return n.options.Rules()
}

// retain cuts off what retention, and rules, do not keep. A cut is an entry of each shard's
// log, so that all replicas have the same, whatever rules their nodes know.
func (n *Node) retain(ctx context.Context) error {
	now := n.options.Clock()
	plan := planRetention(n.rules().RetentionRules(), n.options.Retention, now)
	n.engine.KeepFor(plan.keepMs(now))
	keep, all := time.Duration(0), false
	if firstMs := plan.firstMs(); firstMs != retention.NoCut {
		keep, all = now.Sub(time.UnixMilli(firstMs)), n.engine.AllBefore(firstMs, now.UnixMilli())
	}
	if untrusted := n.clocks.Trust(now, keep, all); untrusted != nil { // found out in any case: it is told to people
		return n.engine.Retain()
	}
	err := n.cut(ctx, &plan)
	if errors.Is(err, series.ErrReadOnly) && plan.wholeMs != retention.NoCut {
		// A full disk takes no entry, but what is too old must go to make room.
		return errors.Join(err, n.engine.DropBefore(plan.wholeMs))
	}
	if err != nil {
		return err
	}
	return n.engine.Retain()
}

// cut proposes what is missing of a plan in the shards that this node leads.
func (n *Node) cut(ctx context.Context, plan *retentionPlan) error {
	w := commit.NewWrite(series.BatchID{}, 2*n.engine.Shards())
	for _, shard := range n.led() {
		if n.engine.ShardCut(shard) < plan.wholeMs {
			w.Add(entry.Retention, shard, entry.RetentionBody(plan.wholeMs))
		}
	}
	if plan.rules != nil {
		n.addCuts(w, entry.RuleCuts, plan.rules, n.engine.ShardRuleCuts)
	}
	if len(w.Proposals) == 0 {
		return nil
	}
	return n.propose(ctx, w)
}

// addCuts adds proposals of cuts to a write, for the shards that this node leads and that know of earlier ones only.
func (n *Node) addCuts(w *commit.Write, kind entry.Kind, wanted *retention.Cuts, knownOf func(shard uint16) []retention.Cuts) {
	held := 0
	for _, shard := range n.led() {
		known := knownOf(shard)
		switch due := ruleCutsDue(wanted, known); {
		case due && !retention.Fits(known, wanted):
			held++
		case due:
			w.Add(kind, shard, retention.Encode(wanted))
		}
	}
	if held > 0 {
		n.logger.Warn("the rules of retention have changed so often that the new ones wait until what earlier ones have cut is too old for all",
			"shards", held)
	}
}

// ruleCutsDue reports whether a shard would hide more by the wanted cuts than by the latest of
// those it knows.
func ruleCutsDue(wanted *retention.Cuts, known []retention.Cuts) bool {
	if len(known) == 0 || !wanted.SameRules(&known[len(known)-1]) {
		return true
	}
	latest := &known[len(known)-1]
	if wanted.OtherMs > latest.OtherMs {
		return true
	}
	for i := range wanted.Rules {
		if wanted.Rules[i].CutMs > latest.Rules[i].CutMs {
			return true
		}
	}
	return false
}
