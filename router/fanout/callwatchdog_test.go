package fanout

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

func valueOf(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// guessAll makes the router take a node for the leader of all shards.
func (w *world) guessAll(c *Cluster, node int) {
	n := c.current.Load().nodes[w.nodes[node].id]
	for shard := range testShards {
		c.leads(uint16(shard), n)
	}
}

// hasty limits soon turn away from a node that says nothing. On a busy machine the others
// answer in that time all the same, or the next time.
func hasty() Limits {
	return Limits{
		AttemptTimeout: 200 * time.Millisecond, ProbeTimeout: time.Second, WriteTimeout: waitBound, ReadTimeout: waitBound,
		BackoffMin: time.Microsecond, BackoffMax: time.Millisecond,
	}
}

// Every read and delete turns away from a node that is stopped, with connections on
// which nothing comes.
func TestStoppedNode(t *testing.T) {
	const stopped = 0
	ctx, selector := context.Background(), scan.Selector{Metric: "m"}
	for name, read := range map[string]func(c *Cluster) (int, error){
		"scan": func(c *Cluster) (int, error) {
			got, err := scantest.Collect(ctx, c.Source(scan.Consistency{}), &scan.Request{Selector: selector, ToMs: scan.TimeMsMax})
			return len(got), err
		},
		"last": func(c *Cluster) (n int, err error) {
			err = c.Source(scan.Consistency{}).Last(ctx, &selector, 0, scan.Limits{}, func(scan.Point) error { n++; return nil })
			return n, err
		},
		"series": func(c *Cluster) (int, error) {
			n, err := c.Source(scan.Consistency{}).Series(ctx, &selector, 1, func(series.Key) error { return nil })
			return int(n), err
		},
		"names": func(c *Cluster) (int, error) {
			names, err := c.Source(scan.Consistency{}).TagValues(ctx, "", "m", "n", "", 0)
			return len(names), err
		},
		"delete": func(c *Cluster) (int, error) {
			n, err := c.Delete(ctx, &selector, 0, 0)
			return int(n), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, testShards)
			c := w.open(hasty())
			const count = 20
			w.fill(c, count, 3)
			for shard := range testShards {
				w.lead(shard, 1+shard%2)
			}
			w.guessAll(c, stopped)
			w.nodes[stopped].frozen.Store(true)
			probes := valueOf(t, c.metrics.leaderProbes) // on a busy machine some may know already who leads
			if n, err := read(c); err != nil || n != count {
				t.Errorf("%d of %d, %v", n, count, err)
			}
			if given := valueOf(t, c.metrics.givenUp); given < 1 && probes == 0 {
				t.Error("no call was given up")
			}
		})
	}
}

// A node that is stopped in the middle of its answer: each series is given once and
// whole all the same, also one of which a part was given.
func TestStopInTheMiddle(t *testing.T) {
	for _, held := range []int{1, 1 << 20} {
		for _, at := range []int64{2, 33} {
			w := newWorld(t, 2, testShards)
			limits := hasty()
			limits.SeriesBytesHeld = held
			c := w.open(limits)
			all := w.fill(c, 40, 300)
			for shard := range testShards {
				w.lead(shard, 0)
			}
			w.guessAll(c, 0)
			var chunks atomic.Int64
			w.nodes[0].onChunk = func() {
				if chunks.Add(1) == at {
					for shard := range testShards {
						w.lead(shard, 1)
					}
					w.nodes[0].frozen.Store(true)
				}
			}
			got, err := scantest.Collect(context.Background(), c.Source(scan.Consistency{}), &scan.Request{Selector: scan.Selector{Metric: "m"}, ToMs: scan.TimeMsMax})
			if err != nil {
				t.Fatal(err)
			}
			wantAll(t, got, all)
			if given := valueOf(t, c.metrics.givenUp); given < 1 {
				t.Error("no call was given up")
			}
		}
	}
}

// A node that is there and takes its time is asked whether it is there, again and
// again, and waited for.
func TestSlowNodeIsWaitedFor(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{AttemptTimeout: time.Millisecond, ProbeTimeout: waitBound})
	all := w.fill(c, 20, 3)
	w.nodes[0].hung.Store(true)
	go func() {
		for valueOf(t, c.metrics.probes) < 5 {
			time.Sleep(time.Millisecond)
		}
		w.nodes[0].hung.Store(false)
	}()
	got, err := scantest.Collect(context.Background(), c.Source(scan.Consistency{}), &scan.Request{Selector: scan.Selector{Metric: "m"}, ToMs: scan.TimeMsMax})
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, got, all)
	if given, lost := valueOf(t, c.metrics.givenUp), valueOf(t, c.metrics.callsLost); given != 0 || lost != 0 {
		t.Errorf("%v calls were given up, %v failed", given, lost)
	}
}

// Reports come from the nodes that answer.
func TestReportsWithoutStopped(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{AttemptTimeout: 5 * time.Millisecond, ProbeTimeout: 20 * time.Millisecond})
	eventually(t, "reports of all nodes", func() bool { return len(c.Reports(context.Background(), &nodev1.ReportRequest{})) == 3 })
	w.nodes[1].frozen.Store(true)
	reports := c.Reports(context.Background(), &nodev1.ReportRequest{})
	if given := valueOf(t, c.metrics.givenUp); reports["b"] != nil || given < 1 {
		t.Errorf("reports %v, %v calls given up", reports, given)
	}
}
