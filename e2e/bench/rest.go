package bench

import (
	"context"
	"os"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

const (
	restQuiet   = 5 * time.Second // before it is measured
	restMeasure = 5 * time.Second
	rebuildMax  = 2 * time.Minute
)

func runRest(ctx context.Context, b *bench, t target.Target) error {
	tickmesh, ok := b.clustered(t)
	if !ok {
		return nil
	}
	return b.withCluster(ctx, tickmesh, clusterNodes, 2, func(c *target.Cluster) error {
		if _, err := paced(ctx, c.Router, firstRequests(c.Router), 0, 0); err != nil {
			return err
		}
		if err := restCost(ctx, b, c); err != nil {
			return err
		}
		return rebuildCost(ctx, b, c)
	})
}

// firstRequests returns feeds that write each series of W1 once.
func firstRequests(server *target.Server) []load.Feed {
	_, feeds := httpRings(server, connectionCount)
	for i, feed := range feeds {
		item, _ := feed()
		feeds[i] = list([]load.Item{item})
	}
	return feeds
}

// restCost measures what processes cost that have nothing to do.
func restCost(ctx context.Context, b *bench, c *target.Cluster) error {
	if err := sleep(ctx, restQuiet); err != nil {
		return err
	}
	names, processes := []string{"etcd, at rest", "router, at rest"}, []*harness.Process{c.Etcd, c.Router.Process}
	for _, n := range c.Nodes() {
		names, processes = append(names, "a node, at rest"), append(processes, n.Process)
	}
	costs := make([]harness.Usage, len(processes))
	wakeups := make([]int64, len(processes))
	read := func(sign int64) (err error) {
		for i, process := range processes {
			usage, err := process.Usage()
			if err != nil {
				return err
			}
			switches, err := process.VoluntarySwitches()
			if err != nil {
				return err
			}
			costs[i].CPU += time.Duration(sign) * usage.CPU
			costs[i].RSSBytes = usage.RSSBytes
			wakeups[i] += sign * switches
		}
		return nil
	}
	if err := read(-1); err != nil {
		return err
	}
	if err := sleep(ctx, restMeasure); err != nil {
		return err
	}
	if err := read(1); err != nil {
		return err
	}
	for i, name := range names {
		b.lower(name, "CPU", "% of a core", 100*costs[i].CPU.Seconds()/restMeasure.Seconds())
		b.lower(name, "threads woken", "per second", float64(wakeups[i])/restMeasure.Seconds())
		b.lower(name, "VmRSS", "MB", float64(costs[i].RSSBytes)/1e6)
	}
	return nil
}

// rebuildCost fills the cluster, takes a node's disk away and waits until the node has
// all of its copies again.
func rebuildCost(ctx context.Context, b *bench, c *target.Cluster) error {
	rings, feeds := httpRings(c.Router, connectionCount)
	result, err := send(ctx, c.Router, target.HTTPLine, feeds, b.config.Scale.Duration, 0)
	if err != nil {
		return err
	}
	victim := c.Nodes()[clusterNodes-1]
	before, err := c.Store.Load(ctx)
	if err != nil {
		return err
	}
	old, copies := before.Nodes[victim.Name].Incarnation, len(before.Map.MembersOn(victim.Name))
	victim.Kill()
	if err := os.RemoveAll(victim.Dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, rebuildMax)
	defer cancel()
	start := time.Now()
	if err := c.Restart(victim); err != nil {
		return err
	}
	err = c.Await(ctx, "a rebuilt node", func(v shardmap.View) bool {
		for _, row := range v.Map.Rows {
			if _, lost := row.MemberOn(victim.Name, old); lost {
				return false
			}
		}
		return len(v.Map.MembersOn(victim.Name)) >= copies-1 && v.Map.Moving() == 0
	})
	if err != nil {
		return err
	}
	took := time.Since(start)
	usage, err := victim.Usage()
	if err != nil {
		return err
	}
	const which = "a node's disk replaced"
	b.lower(which, "samples in the cluster", "M", float64(result.Points)/1e6)
	b.lower(which, "copies on the node, witnesses among them", "", float64(copies))
	b.lower(which, "until rebuilt", "s", took.Seconds())
	b.lower(which, "written to its disk", "MB", float64(usage.WrittenBytes)/1e6)
	b.lower(which, "its CPU", "s", usage.CPU.Seconds())
	return checkRings(ctx, c.Router, target.HTTPLine.Form(), rings, result.Points)
}
