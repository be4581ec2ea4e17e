package bench

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
)

// runCluster compares rates at equal processors: standalone, then clusters.
func runCluster(ctx context.Context, b *bench, t target.Target) error {
	tickmesh, ok := b.clustered(t)
	if !ok {
		return nil
	}
	for _, protocol := range []target.Protocol{target.HTTPLine, target.TCPLine} {
		alone := 0.0
		err := b.with(ctx, t, nil, 0, func(server *target.Server) (err error) {
			alone, err = ingestOnce(ctx, b, server, protocol, false, protocol.String()+", standalone")
			return err
		})
		if err != nil {
			return fmt.Errorf("%s, standalone: %w", protocol, err)
		}
		for copies := 1; copies <= clusterNodes; copies++ {
			which := fmt.Sprintf("%s, copies %d", protocol, copies)
			err := b.withCluster(ctx, tickmesh, clusterNodes, copies, func(c *target.Cluster) error {
				rate, err := ingestOnce(ctx, b, c.Router, protocol, false, which)
				if err != nil {
					return err
				}
				b.higher(which, "of the rate of standalone", "%", 100*rate/alone)
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", which, err)
			}
		}
	}
	return nil
}
