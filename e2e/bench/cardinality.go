package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

func runCardinality(ctx context.Context, b *bench, t target.Target) error {
	for _, series := range b.config.Scale.SeriesCounts {
		if most, reason := t.SeriesMax(); most > 0 && series > most {
			b.note("%s: %s", t.Name(), reason)
			continue
		}
		for _, variant := range []struct {
			protocol target.Protocol
			shuffle  bool
		}{{target.HTTPLine, false}, {target.HTTPLine, true}, {target.TCPPut, false}, {target.TCPPut, true}} {
			which := fmt.Sprintf("%s, %d k series", variant.protocol, series/1000)
			if variant.shuffle {
				which += ", shuffled"
			}
			err := b.with(ctx, t, nil, 0, func(server *target.Server) error {
				return cardinalityOnce(ctx, b, server, variant.protocol, variant.shuffle, series, which)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", which, err)
			}
		}
	}
	return nil
}

func cardinalityOnce(ctx context.Context, b *bench, server *target.Server, protocol target.Protocol, shuffle bool, series int, which string) error {
	fleet := newFleet(0, series/workload.SensorCount)
	var rates, micros []float64
	var sent int64
	for round := range cardinalityRounds {
		feeds := fleet.round(server, protocol, round, shuffle)
		before, err := server.Usage()
		if err != nil {
			return err
		}
		result, err := send(ctx, server, protocol, feeds, 0, sent)
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		sent += result.Points
		after, err := server.Usage()
		if err != nil {
			return err
		}
		if round == 0 {
			b.higher(which, "creation", "k series/s", result.PointsPerSecond()/1e3)
			b.lower(which, "server CPU, creation", "µs/series", (after.CPU-before.CPU).Seconds()*1e6/float64(result.Points))
			continue
		}
		rates = append(rates, result.PointsPerSecond()/1e6)
		micros = append(micros, (after.CPU-before.CPU).Seconds()*1e6/float64(result.Points))
	}
	b.higher(which, "later rounds", "M points/s", median(rates))
	b.lower(which, "server CPU, later rounds", "µs/point", median(micros))
	if err := reportMemory(ctx, b, server, series, which); err != nil {
		return err
	}
	if err := checkRounds(ctx, server, protocol, int64(series), sent); err != nil {
		return err
	}
	if err := server.Stop(); err != nil {
		return err
	}
	disk, err := harness.DiskBytes(server.DataDir())
	b.lower(which, "on disk after the end", "bytes/point", float64(disk)/float64(sent))
	return err
}

func reportMemory(ctx context.Context, b *bench, server *target.Server, series int, which string) error {
	now, err := server.Usage()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(b.config.Scale.RestDuration):
	}
	later, err := server.Usage()
	if err != nil {
		return err
	}
	b.lower(which, "VmRSS", "bytes/series", float64(now.RSSBytes)/float64(series))
	b.lower(which, "RssAnon", "bytes/series", float64(now.RSSAnonBytes)/float64(series))
	b.lower(which, "VmRSS a little later", "bytes/series", float64(later.RSSBytes)/float64(series))
	b.lower(which, "VmHWM", "bytes/series", float64(later.RSSMaxBytes)/float64(series))
	return nil
}

// checkRounds counts the samples of the last round and those of all, and compares
// the one of a known series.
func checkRounds(ctx context.Context, server *target.Server, protocol target.Protocol, series, sent int64) error {
	if err := server.Publish(ctx, server); err != nil {
		return err
	}
	const last = baseSeconds + (cardinalityRounds-1)*cardinalityStepS
	count := target.Query{Kind: target.Count, Form: protocol.Form(), Device: target.All, Sensor: target.All, FromS: last, ToS: last + 1}
	if err := check(ctx, server, count, target.Answer{Points: 1, Value: float64(series)}); err != nil {
		return err
	}
	count.FromS = baseSeconds
	if err := check(ctx, server, count, target.Answer{Points: 1, Value: float64(sent)}); err != nil {
		return err
	}
	device, sum := workload.NewDevice(seed, 11, false), 0.0
	for range cardinalityRounds {
		sum += device.Next()[2].Float()
	}
	mean := target.Query{Kind: target.Mean, Form: protocol.Form(), Device: 11, Sensor: 2, FromS: baseSeconds, ToS: last + 1}
	return check(ctx, server, mean, target.Answer{Points: 1, Value: sum / cardinalityRounds})
}

// loadStreams writes rows of never-repeating values of the standard devices.
func loadStreams(ctx context.Context, server *target.Server, rows int, noise bool) (*load.Result, error) {
	result, err := send(ctx, server, target.HTTPLine, streams(server, target.HTTPLine, connectionCount, rows, noise), 0, 0)
	if err != nil {
		return nil, err
	}
	if err := server.Publish(ctx, server); err != nil {
		return nil, err
	}
	count := target.Query{Kind: target.Count, Form: workload.Line, Device: target.All, Sensor: target.All, FromS: baseSeconds, ToS: baseSeconds + int64(rows)}
	return result, check(ctx, server, count, target.Answer{Points: 1, Value: float64(rows * connectionCount * workload.SensorCount)})
}
