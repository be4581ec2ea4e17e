package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// restartRounds is the number of points of each series before the restart.
const restartRounds = 2

func runRestart(ctx context.Context, b *bench, t target.Target) error {
	for _, series := range b.config.Scale.RestartSeries {
		if most, reason := t.SeriesMax(); most > 0 && series > most {
			b.note("%s: %s", t.Name(), reason)
			continue
		}
		which := fmt.Sprintf("%d k series", series/1000)
		if err := restartOnce(ctx, b, t, series, which); err != nil {
			return fmt.Errorf("%s: %w", which, err)
		}
	}
	return nil
}

func restartOnce(ctx context.Context, b *bench, t target.Target, series int, which string) error {
	dir, remove, err := b.folder()
	if err != nil {
		return err
	}
	defer remove()
	options := target.Options{Dir: dir, CPUs: b.config.ServerCPUs}
	server, err := target.Start(ctx, t, options, true)
	if err != nil {
		return err
	}
	defer func() { server.Kill() }()
	var sent int64
	fleet := newFleet(0, series/workload.SensorCount)
	for round := range restartRounds {
		result, err := send(ctx, server, target.HTTPLine, fleet.round(server, target.HTTPLine, round, false), 0, sent)
		if err != nil {
			return err
		}
		sent += result.Points
	}
	server.Kill()
	start := time.Now()
	if server, err = target.Start(ctx, t, options, false); err != nil {
		return err
	}
	ready := time.Since(start)
	stored, err := countRounds(ctx, server)
	if err != nil {
		return err
	}
	b.lower(which, "SIGKILL: start until ready", "s", ready.Seconds())
	b.lower(which, "SIGKILL: until answered", "s", time.Since(start).Seconds())
	b.lower(which, "SIGKILL: acknowledged, missing", "%", 100*float64(sent-stored)/float64(sent))
	start = time.Now()
	if err := server.Stop(); err != nil {
		return err
	}
	b.lower(which, "SIGTERM: until ended", "s", time.Since(start).Seconds())
	start = time.Now()
	if server, err = target.Start(ctx, t, options, false); err != nil {
		return err
	}
	ready = time.Since(start)
	again, err := countRounds(ctx, server)
	if err != nil {
		return err
	}
	b.lower(which, "SIGTERM: start until ready", "s", ready.Seconds())
	b.lower(which, "SIGTERM: until answered", "s", time.Since(start).Seconds())
	if again != stored || stored != sent && t.Name() == "tickmesh" {
		return fmt.Errorf("%w: %d points acknowledged, %d after SIGKILL, %d after SIGTERM", ErrCheck, sent, stored, again)
	}
	return nil
}

func countRounds(ctx context.Context, server *target.Server) (int64, error) {
	answer, err := server.Ask(ctx, target.Query{
		Kind: target.Count, Form: workload.Line, Device: target.All, Sensor: target.All,
		FromS: baseSeconds, ToS: baseSeconds + restartRounds*cardinalityStepS,
	})
	return int64(answer.Value), err
}
