package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

const (
	deadRounds = 60 * 24 * 3600 / cardinalityStepS // between the dead series and the live ones
	deadAtOnce = 1_000_000                         // series whose requests are made before they are sent
)

// runDead asks for the last minutes of ten live series alone and among many that have ended long ago, and starts the server with these.
func runDead(ctx context.Context, b *bench, t target.Target) error {
	dead := b.config.Scale.DeadSeries
	which := fmt.Sprintf("10 live series among %d M", dead/1e6)
	if most, reason := t.SeriesMax(); most > 0 && dead+workload.SensorCount > most {
		b.note("%s: %s", t.Name(), reason)
		return nil
	}
	var alone float64
	var aloneUsage harness.Usage
	err := b.with(ctx, t, nil, 0, func(server *target.Server) (err error) {
		if alone, err = liveAmong(ctx, b, server, 0); err != nil {
			return err
		}
		aloneUsage, err = server.Usage()
		return err
	})
	if err != nil {
		return fmt.Errorf("without the dead: %w", err)
	}
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
	among, err := liveAmong(ctx, b, server, dead)
	if err != nil {
		return err
	}
	b.lower(which, "last 5 min by minute of the ten alone, P50", "ms", alone)
	b.lower(which, "the same among the dead, P50", "ms", among)
	b.lower(which, "of that alone", "×", among/alone)
	server.Kill()
	if server, err = startedAgain(ctx, b, t, options, which, "SIGKILL"); err != nil {
		return err
	}
	if err := server.Stop(); err != nil {
		return err
	}
	if server, err = startedAgain(ctx, b, t, options, which, "SIGTERM"); err != nil {
		return err
	}
	// Series are silent when their samples are in files that no merge waits for.
	if err := compact(ctx, server); err != nil {
		return err
	}
	if err := server.Stop(); err != nil {
		return err
	}
	if server, err = startedAgain(ctx, b, t, options, which, "compacted, SIGTERM"); err != nil {
		return err
	}
	usage, err := server.Usage()
	if err != nil {
		return err
	}
	b.lower(which, "RssAnon after the last start, beyond that of the ten alone", "bytes/dead series", float64(usage.RSSAnonBytes-aloneUsage.RSSAnonBytes)/float64(dead))
	return nil
}

// liveAmong writes dead series and, long after, ten live ones, and returns the median time in ms of questions for the last minutes.
func liveAmong(ctx context.Context, b *bench, server *target.Server, dead int) (float64, error) {
	var sent int64
	write := func(fleet *fleet, round int) error {
		result, err := send(ctx, server, target.HTTPLine, fleet.round(server, target.HTTPLine, round, false), 0, sent)
		if err == nil {
			sent += result.Points
		}
		return err
	}
	for first := 0; first < dead; first += deadAtOnce {
		if err := write(newFleet(first/workload.SensorCount, min(deadAtOnce, dead-first)/workload.SensorCount), 0); err != nil {
			return 0, err
		}
	}
	live := newFleet(dead/workload.SensorCount, 1)
	for round := range int(recentRound) {
		if err := write(live, deadRounds+round); err != nil {
			return 0, err
		}
	}
	return askRecent(ctx, b, server, liveEndS, workload.SensorCount*recentRound)
}

// liveEndS is the time behind the last points of the live series.
const liveEndS = baseSeconds + (deadRounds+recentRound)*cardinalityStepS

// startedAgain starts a server after a signal had ended it, until the live series are answered.
func startedAgain(ctx context.Context, b *bench, t target.Target, options target.Options, which, signal string) (*target.Server, error) {
	start := time.Now()
	server, err := target.Start(ctx, t, options, false)
	if err != nil {
		return nil, err
	}
	ready := time.Since(start)
	count := target.Query{Kind: target.Count, Form: workload.Line, Device: target.All, Sensor: target.All, FromS: liveEndS - recentS, ToS: liveEndS}
	if err := check(ctx, server, count, target.Answer{Points: 1, Value: float64(workload.SensorCount * recentRound)}); err != nil {
		server.Kill()
		return nil, fmt.Errorf("after %s: %w", signal, err)
	}
	b.lower(which, signal+": start until ready", "s", ready.Seconds())
	b.lower(which, signal+": until answered", "s", time.Since(start).Seconds())
	return server, nil
}
