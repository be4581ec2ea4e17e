package node

import (
	"context"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// planThin returns the cuts before which the last sample of each hour is kept, by the first rule that matches a series. Each is
// the start of a day. Nil: there are no rules.
func planThin(rules []tenancy.RetentionRule, now time.Time) *retention.Cuts {
	if len(rules) == 0 {
		return nil
	}
	cuts := &retention.Cuts{OtherMs: retention.NoCut}
	for _, r := range rules {
		cut := retention.Cut{Database: r.Database, Metric: r.Metric, CutMs: retention.NoCut}
		if r.Retention > 0 {
			cut.CutMs = segment.PartitionOf(now.Add(-r.Retention).UnixMilli(), segment.SpanDay).StartMs
		}
		cuts.Rules = append(cuts.Rules, cut)
	}
	return cuts
}

// thin has the last sample of each hour kept where rules say so, beside rollups: it proposes cuts, which all replicas of a shard have
// in common, and lets compactions thin files by those that are in force.
func (n *Node) thin(ctx context.Context) error {
	if n.peers.any(thinsKept) { // another one may have sent such entries already
		if err := n.engine.LetThin(); err != nil {
			return err
		}
	}
	if n.peers.any(hoursKept) {
		if err := n.engine.LetTakeHours(); err != nil {
			return err
		}
	}
	if err := n.proposeThin(ctx); err != nil {
		return err
	}
	due, err := n.engine.PrepareThin(n.sealEverything)
	if due {
		n.flushed.add(1, n.options.Clock())
	}
	return err
}

func (n *Node) proposeThin(ctx context.Context) error {
	now := n.options.Clock()
	cuts := planThin(n.rules().RawRules(), now)
	if cuts == nil || n.refuses() || !n.peers.all(thinsUnderstood) {
		return nil
	}
	if err := n.engine.LetThin(); err != nil {
		return err
	}
	if n.peers.all(hoursUnderstood) { // so that a restore need not wait for it
		if err := n.engine.LetTakeHours(); err != nil {
			return err
		}
	}
	if !n.peers.all(thinsKept) {
		return nil // others hear of it, and do the same
	}
	latest := cuts.Most()
	if latest == retention.NoCut {
		return nil
	}
	if untrusted := n.clocks.Trust(now, now.Sub(time.UnixMilli(latest)), n.engine.AllBefore(latest, now.UnixMilli())); untrusted != nil {
		return nil //nolint:nilerr // as for retention, people are told of it
	}
	w := commit.NewWrite(series.BatchID{}, n.engine.Shards())
	n.addCuts(w, entry.ThinCuts, cuts, n.engine.ShardThinCuts)
	if len(w.Proposals) == 0 {
		return nil
	}
	return n.propose(ctx, w)
}
