package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
)

// runCluster compares rates at equal processors: standalone, then clusters. Since the
// rates depend on what else runs on the machine meanwhile, processor times are compared,
// too: where both sides are bound by them, they say the same.
func runCluster(ctx context.Context, b *bench, t target.Target) error {
	tickmesh, ok := b.clustered(t)
	if !ok {
		return nil
	}
	for _, protocol := range []target.Protocol{target.HTTPLine, target.TCPLine} {
		alone := time.Duration(0)
		err := b.with(ctx, t, nil, 0, func(server *target.Server) (err error) {
			_, alone, err = ingestOnce(ctx, b, server, protocol, false, protocol.String()+", standalone")
			return err
		})
		if err != nil {
			return fmt.Errorf("%s, standalone: %w", protocol, err)
		}
		for copies := 1; copies <= clusterNodes; copies++ {
			which := fmt.Sprintf("%s, copies %d", protocol, copies)
			err := b.withCluster(ctx, tickmesh, clusterNodes, copies, func(c *target.Cluster) error {
				_, cost, err := ingestOnce(ctx, b, c.Router, protocol, false, which)
				if err != nil {
					return err
				}
				b.higher(which, "points for the same processor time, of standalone's", "%", 100*alone.Seconds()/cost.Seconds())
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", which, err)
			}
		}
	}
	return nil
}
