package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// memoryQuestions are asked over the data beyond memory.
var memoryQuestions = [...]int{2, 3, 4} // indices into questions

func runMemory(ctx context.Context, b *bench, t target.Target) error {
	limit := b.config.Scale.MemoryLimit
	group, err := harness.NewMemoryGroup(limit)
	if errors.Is(err, harness.ErrNoMemoryGroup) {
		b.note("W4 was skipped: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer group.Close()
	rows := int(b.config.Scale.MemoryPoints) / (connectionCount * workload.SensorCount)
	free, rows, err := memoryOnce(ctx, b, t, nil, rows)
	if err != nil {
		return fmt.Errorf("without a limit: %w", err)
	}
	limited, _, err := memoryOnce(ctx, b, t, group, rows)
	if kills, killsErr := group.Kills(); killsErr == nil && kills > 0 {
		b.note("W4: %s was killed by the kernel because %d MiB were not enough", t.Name(), limit>>20)
		return nil
	}
	if err != nil {
		return fmt.Errorf("with %d MiB: %w", limit>>20, err)
	}
	b.higher("with the limit over without", "ingest kept", "%", 100*limited/free)
	return nil
}

// memoryOnce loads until the data folder is large enough, or all rows were sent,
// and asks. It returns the rate and the rows loaded for each device.
func memoryOnce(ctx context.Context, b *bench, t target.Target, group *harness.MemoryGroup, rows int) (rate float64, loaded int, err error) {
	limit, label := b.config.Scale.MemoryLimit, ", no limit"
	if group != nil {
		label = fmt.Sprintf(", %d MiB", limit>>20)
	}
	limitBytes := int64(0)
	if group != nil {
		limitBytes = limit
	}
	err = b.with(ctx, t, group, limitBytes, func(server *target.Server) error {
		var stop atomic.Bool
		counts := make([]int, connectionCount)
		feeds := streams(server, target.HTTPLine, connectionCount, rows, true)
		for i, feed := range feeds {
			feeds[i] = func() (load.Item, bool) {
				if stop.Load() && group == nil {
					return load.Item{}, false
				}
				item, ok := feed()
				counts[i] += item.Points / workload.SensorCount
				return item, ok
			}
		}
		watch, done := context.WithCancel(ctx)
		defer done()
		go stopWhenLarge(watch, server.DataDir(), memoryFactor*limit, &stop)
		before, err := server.Usage()
		if err != nil {
			return err
		}
		result, err := send(ctx, server, target.HTTPLine, feeds, 0, 0)
		if err != nil {
			return err
		}
		done()
		after, err := server.Usage()
		if err != nil {
			return err
		}
		rate, loaded = result.PointsPerSecond()/1e6, rows
		for _, count := range counts {
			loaded = min(loaded, count)
		}
		disk, err := harness.DiskBytes(server.DataDir())
		if err != nil {
			return err
		}
		cpu := (after.CPU - before.CPU).Seconds()
		b.higher("load"+label, "ingest", "M points/s", rate)
		b.lower("load"+label, "server CPU", "µs/point", cpu*1e6/float64(result.Points))
		b.lower("load"+label, "server cores used", "cores", cpu/result.Elapsed.Seconds())
		b.lower("load"+label, "write P99", "ms", float64(result.Writes.ValueAtQuantile(99))/1000)
		b.higher("load"+label, "data over the limit", "×", float64(disk)/float64(limit))
		if err := server.Publish(ctx, server); err != nil {
			return err
		}
		for _, index := range memoryQuestions {
			if err := ask(ctx, b, server, questions[index], max(1, loaded/3600), 1, label); err != nil {
				return err
			}
		}
		return nil
	})
	return rate, loaded, err
}

// stopWhenLarge sets stop once the folder has the size.
func stopWhenLarge(ctx context.Context, dir string, bytes int64, stop *atomic.Bool) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if size, err := harness.DiskBytes(dir); err == nil && size >= bytes {
			stop.Store(true)
			return
		}
	}
}
