package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
)

const (
	scalingConns    = 40
	scalingInterval = 40 * time.Millisecond // of each connection
	scalingBefore   = 5 * time.Second
	scalingMoveMax  = 2 * time.Minute // of one move under load
	scalingJoins    = 2
)

func runScaling(ctx context.Context, b *bench, t target.Target) error {
	tickmesh, ok := b.clustered(t)
	if !ok {
		return nil
	}
	return b.withCluster(ctx, tickmesh, clusterNodes, 2, func(c *target.Cluster) error { return scaleOnce(ctx, b, c) })
}

func scaleOnce(ctx context.Context, b *bench, c *target.Cluster) error {
	rings, feeds := httpRings(c.Router, scalingConns)
	if _, err := paced(ctx, c.Router, feeds, scalingInterval, scalingBefore/5); err != nil { // new series
		return err
	}
	phase := func(which string, act func(ctx context.Context) error) (*load.Result, error) {
		before, err := c.Router.Usage()
		if err != nil {
			return nil, err
		}
		parts, err := readParts(ctx, c.Router)
		if err != nil {
			return nil, err
		}
		result, err := during(ctx, c.Router, feeds, act)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", which, err)
		}
		after, err := c.Router.Usage()
		if err != nil {
			return nil, err
		}
		b.lower(which, "CPU of all processes", "cores", (after.CPU-before.CPU).Seconds()/result.Elapsed.Seconds())
		b.lower(which, "time", "s", result.Elapsed.Seconds())
		reportTimes(b, which, result)
		b.lower(which, "longest write", "ms", float64(result.Writes.Max())/1000)
		b.lower(which, "longest time without a write", "ms", milliseconds(slices.Max(result.Gaps)))
		if err := parts.report(ctx, b, c.Router, which, result.Requests); err != nil {
			return nil, err
		}
		b.lower(which, "requests that failed", "", float64(result.Errors))
		if result.Errors > 0 {
			b.note("%s: %v", which, result.ErrorFirst)
		}
		return result, nil
	}
	steady, err := phase("3 nodes, steady", func(ctx context.Context) error { return sleep(ctx, scalingBefore) })
	if err != nil {
		return err
	}
	joined, err := phase("3 to 5 nodes", func(ctx context.Context) error { return join(ctx, c) })
	if err != nil {
		return err
	}
	reportSlower(b, "3 to 5 nodes", steady, joined)
	// What five nodes cost on the same processors without any move.
	wide, err := phase("5 nodes, steady", func(ctx context.Context) error { return sleep(ctx, scalingBefore) })
	if err != nil {
		return err
	}
	reportSlower(b, "5 nodes, steady", steady, wide)
	left, err := phase("5 to 3 nodes", func(ctx context.Context) error { return drain(ctx, c) })
	if err != nil {
		return err
	}
	reportSlower(b, "5 to 3 nodes", steady, left)
	if steady.Errors+joined.Errors+wide.Errors+left.Errors > 0 {
		return nil // what failed may have been written
	}
	sent := int64(0)
	for _, ring := range rings {
		sent += ring.sent * pointsPerRequest
	}
	return checkRings(ctx, c.Router, target.HTTPLine.Form(), rings, sent)
}

// parts are what became of parts of frames in a router, by its counters. Other than times they do not depend on
// what else runs on the machine.
type parts map[string]float64

var partCounters = [...]struct{ name, means string }{
	{"tickmesh_fanout_redirects_total", "parts that followed a leader"},
	{"tickmesh_fanout_retries_total", "parts that waited to be sent again"},
	{"tickmesh_fanout_expired_total", "parts for which another node was asked"},
}

func readParts(ctx context.Context, router *target.Server) (parts, error) {
	text, err := router.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	p := parts{}
	for _, counter := range partCounters {
		_, after, found := strings.Cut(string(text), "\n"+counter.name+" ")
		value, _, _ := strings.Cut(after, "\n")
		if p[counter.name], err = strconv.ParseFloat(value, 64); !found || err != nil {
			return nil, fmt.Errorf("the router's metric %s is %q", counter.name, value)
		}
	}
	return p, nil
}

// report reports what has become of parts since p was read, for a thousand requests.
func (p parts) report(ctx context.Context, b *bench, router *target.Server, which string, requests int64) error {
	now, err := readParts(ctx, router)
	if err != nil {
		return err
	}
	for _, counter := range partCounters {
		b.lower(which, counter.means, "per 1,000 requests", 1000*(now[counter.name]-p[counter.name])/float64(max(requests, 1)))
	}
	return nil
}

func reportSlower(b *bench, which string, steady, result *load.Result) {
	b.lower(which, "P99 over steady P99", "×", float64(result.Writes.ValueAtQuantile(99))/float64(steady.Writes.ValueAtQuantile(99)))
}

// during sends until act has ended.
func during(ctx context.Context, server *target.Server, feeds []load.Feed, act func(ctx context.Context) error) (*load.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, scalingMoveMax)
	defer cancel()
	var stop atomic.Bool
	bounded := make([]load.Feed, len(feeds))
	for i, feed := range feeds {
		bounded[i] = func() (load.Item, bool) {
			if stop.Load() {
				return load.Item{}, false
			}
			return feed()
		}
	}
	acted := make(chan error, 1)
	go func() {
		defer stop.Store(true)
		acted <- act(ctx)
	}()
	result, err := paced(ctx, server, bounded, scalingInterval, 0)
	if actErr := <-acted; actErr != nil {
		err = actErr
	}
	return result, err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join adds nodes and waits until each has its share of the shards.
func join(ctx context.Context, c *target.Cluster) error {
	for range scalingJoins {
		if _, err := c.AddNode(); err != nil {
			return err
		}
	}
	nodes := c.Nodes()
	return c.Await(ctx, "shards on 5 nodes", func(v shardmap.View) bool {
		// Balance is within one shard per node; some slack keeps this from depending on
		// how placement rounds.
		members := 0
		for _, row := range v.Map.Rows {
			members += len(row.Members)
		}
		for _, n := range nodes {
			if len(v.Map.MembersOn(n.Name)) < members/len(nodes)-len(nodes) {
				return false
			}
		}
		return v.Map.Moving() == 0
	})
}

// drain empties the nodes that have joined.
func drain(ctx context.Context, c *target.Cluster) error {
	leaving := c.Nodes()[clusterNodes:]
	for _, n := range leaving {
		if err := c.Store.SetDesired(ctx, n.Name, shardmap.Draining); err != nil {
			return err
		}
	}
	return c.Await(ctx, "empty nodes", func(v shardmap.View) bool {
		for _, n := range leaving {
			if len(v.Map.MembersOn(n.Name)) > 0 {
				return false
			}
		}
		return v.Map.Moving() == 0
	})
}
