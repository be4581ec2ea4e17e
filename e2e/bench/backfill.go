package bench

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

const (
	backfillRows  = 365 * 24
	backfillStepS = 3600
)

// runBackfill fills a year in, in the order of time and in a drawn one.
func runBackfill(ctx context.Context, b *bench, t target.Target) error {
	const which = "a year by hour, 2,000 series"
	inOrder, err := backfilled(ctx, b, t, false)
	if err != nil {
		return err
	}
	drawn, err := backfilled(ctx, b, t, true)
	if err != nil {
		return fmt.Errorf("in a drawn order: %w", err)
	}
	b.higher(which, "in the order of time", "M points/s", inOrder/1e6)
	b.higher(which, "in a drawn order", "M points/s", drawn/1e6)
	b.higher(which, backfillShare, "", drawn/inOrder)
	return nil
}

const backfillShare = "points a second in a drawn order, of those in that of time"

// backfilled fills a year in, and returns the points a second. A request that is refused is an error, and so is a sample that is missing.
func backfilled(ctx context.Context, b *bench, t target.Target, shuffle bool) (perSecond float64, err error) {
	err = b.with(ctx, t, nil, 0, func(server *target.Server) error {
		feeds := make([]load.Feed, connectionCount)
		for device := range feeds {
			feeds[device] = backfill(server, target.HTTPLine, device, backfillRows, backfillStepS, shuffle)
		}
		result, err := send(ctx, server, target.HTTPLine, feeds, 0, 0)
		if err != nil {
			return err
		}
		perSecond = result.PointsPerSecond()
		if err := server.Publish(ctx, server); err != nil {
			return err
		}
		count := target.Query{Kind: target.Count, Form: workload.Line, Device: target.All, Sensor: target.All, FromS: baseSeconds, ToS: baseSeconds + backfillRows*backfillStepS}
		return check(ctx, server, count, target.Answer{Points: 1, Value: float64(backfillRows * connectionCount * workload.SensorCount)})
	})
	return perSecond, err
}
