package bench

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
)

// runAlways writes with each write on the disk before it is answered, and without.
func runAlways(ctx context.Context, b *bench, t target.Target) error {
	tickmesh, ok := t.(target.TickMesh)
	if !ok {
		b.note("%s: no mode of it answers writes when they are on the disk", t.Name())
		return nil
	}
	for _, protocol := range target.Protocols() {
		rates := map[string]float64{}
		for _, mode := range []string{"interval", "always"} {
			tickmesh.WALSync = mode
			err := b.with(ctx, tickmesh, nil, 0, func(server *target.Server) error {
				result, _, err := ingestOnce(ctx, b, server, protocol, false, fmt.Sprintf("%s, %s", protocol, mode))
				if err == nil {
					rates[mode] = result.PointsPerSecond()
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("%s, %s: %w", protocol, mode, err)
			}
		}
		b.higher(protocol.String(), alwaysShare, "of 1", rates["always"]/rates["interval"])
	}
	return nil
}

// alwaysShare is the figure of what `always` leaves of the points that `interval` takes.
const alwaysShare = "points a second in `always`, of those in `interval`"
