package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

const (
	stallClients  = 64
	stallInterval = 10 * time.Millisecond
	stallBefore   = 2 * time.Second
	stallAfter    = 5 * time.Second
	// stallLeast is what counts as a stall: far beyond a slow write.
	stallLeast = 300 * time.Millisecond
)

// runStall kills each node in turn.
func runStall(ctx context.Context, b *bench, t target.Target) error {
	tickmesh, ok := b.clustered(t)
	if !ok {
		return nil
	}
	for victim := range clusterNodes {
		err := b.withCluster(ctx, tickmesh, clusterNodes, 2, func(c *target.Cluster) error {
			return stallOnce(ctx, b, c, victim)
		})
		if err != nil {
			return fmt.Errorf("node %d: %w", victim+1, err)
		}
	}
	return nil
}

func stallOnce(ctx context.Context, b *bench, c *target.Cluster, victim int) error {
	feeds, sent := single(c.Router)
	if _, err := paced(ctx, c.Router, feeds, stallInterval, stallBefore/2); err != nil { // new series
		return err
	}
	steady, err := paced(ctx, c.Router, feeds, stallInterval, stallBefore)
	if err != nil {
		return err
	}
	kill := time.AfterFunc(stallBefore, c.Nodes()[victim].Kill)
	defer kill.Stop()
	result, err := paced(ctx, c.Router, feeds, stallInterval, stallBefore+stallAfter)
	if err != nil {
		return err
	}
	const which = "one of 3 nodes killed"
	stalls := slices.DeleteFunc(slices.Clone(result.Gaps), func(gap time.Duration) bool { return gap < stallLeast })
	slices.Sort(stalls)
	b.lower(which, "longest time without a write before", "ms", milliseconds(slices.Max(steady.Gaps)))
	b.lower(which, "clients that stalled (> 300 ms)", "%", 100*float64(len(stalls))/stallClients)
	b.lower(which, "longest stall", "ms", milliseconds(slices.Max(result.Gaps)))
	if len(stalls) > 0 {
		b.lower(which, "median of the clients that stalled", "ms", milliseconds(stalls[len(stalls)/2]))
	}
	b.lower(which, "requests that failed", "", float64(result.Errors))
	if result.Errors > 0 {
		b.note("death of a node: %v", result.ErrorFirst)
		return nil // what failed may have been written
	}
	return checkSingle(ctx, c.Router, sent)
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// single returns feeds of one series each, so that each is a client of one shard, and
// the numbers of points that they have sent.
func single(server *target.Server) ([]load.Feed, []int64) {
	feeds, sent := make([]load.Feed, stallClients), make([]int64, stallClients)
	for i := range feeds {
		feeds[i] = func() (load.Item, bool) {
			line := fmt.Sprintf("%s,device=%s s_0=%d %d\n", workload.Metric, workload.DeviceName(i), sent[i], baseSeconds+sent[i])
			sent[i]++
			return load.Item{Text: append(load.AppendPost(nil, server.Addresses.HTTP, server.WritePath(), len(line)), line...), Points: 1}, true
		}
	}
	return feeds, sent
}

// checkSingle counts what the feeds of single have sent.
func checkSingle(ctx context.Context, server *target.Server, sent []int64) error {
	sum, most := int64(0), int64(0)
	for _, n := range sent {
		sum += n
		most = max(most, n)
	}
	return check(ctx, server, target.Query{
		Kind: target.Count, Form: workload.Line, Device: target.All, Sensor: target.All, FromS: baseSeconds, ToS: baseSeconds + most,
	}, target.Answer{Points: 1, Value: float64(sum)})
}
