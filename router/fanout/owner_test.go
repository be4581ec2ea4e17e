package fanout

import (
	"context"
	"testing"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
)

// TestNodesKnowOwners: nodes can tell the owners of requests apart, the same for all routers, and nobody's name is sent.
func TestNodesKnowOwners(t *testing.T) {
	w := newWorld(t, 1, 1)
	routers := []*Cluster{w.open(Limits{ReadTimeout: waitBound}), w.open(Limits{ReadTimeout: waitBound})}
	processors := processor.New(1)
	owners := map[string]bool{}
	var last string
	w.nodes[0].onOwner = func(owner string) {
		last = owner
		owners[owner] = true
	}
	ask := func(ctx context.Context, c *Cluster) string {
		if err := c.Source(scan.Consistency{}).Scan(ctx, &scan.Request{Selector: scan.Selector{MetricAny: true}, ToMs: 1}, func(int, *scan.Chunk) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return last
	}
	for _, name := range []string{"ann", "bob", "192.0.2.1", "a name\nin two lines \xff"} {
		ctx, work := processors.Begin(t.Context(), name)
		one, other := ask(ctx, routers[0]), ask(ctx, routers[1])
		if one != other || len(one) != 32 {
			t.Errorf("%q is %q to one router and %q to another", name, one, other)
		}
		work.EndAll()
	}
	if nobody := ask(t.Context(), routers[0]); nobody != "" || len(owners) != 5 {
		t.Errorf("%v, and nobody is %q", owners, nobody)
	}
}
