package bench

import (
	"context"
	"slices"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// runSustained writes values that never repeat for minutes, so that files are merged meanwhile, then merges the rest.
func runSustained(ctx context.Context, b *bench, t target.Target) error {
	const which = "HTTP line"
	return b.with(ctx, t, nil, 0, func(server *target.Server) error {
		feeds, rows := countRows(streams(server, target.HTTPLine, connectionCount, int(b.config.Scale.SustainedDuration.Seconds())*rowsPerSecondMax, false))
		before, err := server.Usage()
		if err != nil {
			return err
		}
		result, err := send(ctx, server, target.HTTPLine, feeds, b.config.Scale.SustainedDuration, 0)
		if err != nil {
			return err
		}
		after, err := server.Usage()
		if err != nil {
			return err
		}
		reportIngest(b, which, target.HTTPLine, result, before, after)
		if err := server.Publish(ctx, server); err != nil {
			return err
		}
		count := target.Query{
			Kind: target.Count, Form: workload.Line, Device: target.All, Sensor: target.All,
			FromS: baseSeconds, ToS: baseSeconds + slices.Max(rows),
		}
		if err := check(ctx, server, count, target.Answer{Points: 1, Value: float64(result.Points)}); err != nil {
			return err
		}
		if err := compact(ctx, server); err != nil {
			return err
		}
		merged, err := server.Usage()
		if err != nil {
			return err
		}
		b.lower(which, "server CPU, merged to the end", "µs/point", (merged.CPU-before.CPU).Seconds()*1e6/float64(result.Points))
		b.lower(which, "written to disk, merged to the end", "bytes/point", float64(merged.WrittenBytes-before.WrittenBytes)/float64(result.Points))
		if err := server.Stop(); err != nil {
			return err
		}
		disk, err := harness.DiskBytes(server.DataDir())
		b.lower(which, "on disk after the end", "bytes/point", float64(disk)/float64(result.Points))
		return err
	})
}

// rowsPerSecondMax is more rows of a device than any server takes in a second.
const rowsPerSecondMax = 100_000

// countRows makes feeds note how many rows they have sent.
func countRows(feeds []load.Feed) (counting []load.Feed, rows []int64) {
	rows, counting = make([]int64, len(feeds)), make([]load.Feed, len(feeds))
	for i, feed := range feeds {
		counting[i] = func() (load.Item, bool) {
			item, ok := feed()
			rows[i] += int64(item.Points / workload.SensorCount)
			return item, ok
		}
	}
	return counting, rows
}
