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
	for _, name := range []string{"ann", "bob", "a name\nin two lines \xff"} {
		ctx, work := processors.Begin(t.Context(), name)
		one, other := ask(ctx, routers[0]), ask(ctx, routers[1])
		if one != other || len(one) != 32 {
			t.Errorf("%q is %q to one router and %q to another", name, one, other)
		}
		work.EndAll()
	}
	for _, address := range []string{"", "192.0.2.1", "2001:db8::1"} { // a proxy's is that of all who come by it
		ctx, work := processors.Begin(t.Context(), address)
		if nobody := ask(ctx, routers[0]); nobody != "" {
			t.Errorf("%q is %q", address, nobody)
		}
		work.EndAll()
	}
	if len(owners) != 4 {
		t.Errorf("%v", owners)
	}
}
