package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// send runs feeds over a protocol and takes everything that the server complained
// about as an error. before is the number of points sent since its start.
func send(ctx context.Context, server *target.Server, protocol target.Protocol, feeds []load.Feed, duration time.Duration, before int64) (*load.Result, error) {
	options := load.Options{
		Address: server.AddressOf(protocol), Duration: duration,
		SendBytes: sendBufferBytes, Fence: server.Fence(protocol),
	}
	run := load.TCP
	if protocol == target.HTTPLine {
		run = load.HTTP
	}
	start := time.Now()
	result, err := run(ctx, options, feeds)
	if err != nil {
		return nil, err
	}
	if result.Errors > 0 {
		return nil, fmt.Errorf("%d requests were refused; the first: %w", result.Errors, result.ErrorFirst)
	}
	if protocol != target.HTTPLine {
		if err := server.Applied(ctx, server, protocol, before+result.Points); err != nil {
			return nil, err
		}
		result.Elapsed = time.Since(start)
	}
	return result, nil
}

func runIngest(ctx context.Context, b *bench, t target.Target) error {
	for _, protocol := range target.Protocols() {
		for _, reads := range []bool{false, true} {
			if !t.Speaks(protocol) || reads && protocol != target.HTTPLine {
				continue
			}
			which := protocol.String()
			if reads {
				which += ", 10 % reads"
			}
			err := b.with(ctx, t, nil, 0, func(server *target.Server) error {
				_, _, err := ingestOnce(ctx, b, server, protocol, reads, which)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", which, err)
			}
		}
	}
	return nil
}

// ingestOnce returns what was sent, and the processor time that a million points cost the server.
func ingestOnce(ctx context.Context, b *bench, server *target.Server, protocol target.Protocol, reads bool, which string) (*load.Result, time.Duration, error) {
	rings := make([]*ring, connectionCount)
	feeds := make([]load.Feed, connectionCount)
	for i := range rings {
		rings[i] = newRing(server, protocol, i)
		if reads {
			rings[i].read = hourQuery(server)
		}
		feeds[i] = rings[i].next
	}
	before, err := server.Usage()
	if err != nil {
		return nil, 0, err
	}
	clientBefore, err := harness.ReadUsage(os.Getpid())
	if err != nil {
		return nil, 0, err
	}
	result, err := send(ctx, server, protocol, feeds, b.config.Scale.Duration, 0)
	if err != nil {
		return nil, 0, err
	}
	clientAfter, err := harness.ReadUsage(os.Getpid())
	if err != nil {
		return nil, 0, err
	}
	after, err := server.Usage()
	if err != nil {
		return nil, 0, err
	}
	reportIngest(b, which, protocol, result, before, after)
	b.lower(which, "client cores used", "cores", (clientAfter.CPU-clientBefore.CPU).Seconds()/result.Elapsed.Seconds())
	if err := server.Publish(ctx, server); err != nil {
		return nil, 0, err
	}
	perMillion := float64(after.CPU-before.CPU) * 1e6 / float64(max(1, result.Points))
	return result, time.Duration(perMillion), checkRings(ctx, server, protocol.Form(), rings, result.Points)
}

// hourQuery asks for the mean of a series over its last hour.
func hourQuery(server *target.Server) func(device int, toS int64) []byte {
	return func(device int, toS int64) []byte {
		return server.QueryRequest(target.Query{
			Kind: target.Mean, Form: workload.Line, Device: device, Sensor: device % workload.SensorCount,
			FromS: toS - 3600, ToS: toS,
		})
	}
}

func reportIngest(b *bench, which string, protocol target.Protocol, result *load.Result, before, after harness.Usage) {
	cpu := after.CPU - before.CPU
	b.higher(which, "ingest", "M points/s", result.PointsPerSecond()/1e6)
	b.lower(which, "server CPU", "µs/point", cpu.Seconds()*1e6/float64(result.Points))
	b.lower(which, "server cores used", "cores", cpu.Seconds()/result.Elapsed.Seconds())
	unit := "ms"
	if protocol != target.HTTPLine {
		unit = "ms of write(2)"
	}
	for _, quantile := range []float64{50, 99, 99.9} {
		b.lower(which, fmt.Sprintf("write P%g", quantile), unit, float64(result.Writes.ValueAtQuantile(quantile))/1000)
	}
	if result.Reads > 0 {
		for _, quantile := range []float64{50, 99, 99.9} {
			b.lower(which, fmt.Sprintf("read P%g", quantile), "ms", float64(result.ReadTimes.ValueAtQuantile(quantile))/1000)
		}
	}
	b.lower(which, "best over worst connection", "×", float64(result.ConnectionPointsMax)/float64(max(1, result.ConnectionPointsMin)))
	b.lower(which, "memory, most", "MB", float64(after.RSSMaxBytes)/1e6)
	b.lower(which, "written to disk", "bytes/point", float64(after.WrittenBytes-before.WrittenBytes)/float64(result.Points))
}

// checkRings compares the number of samples stored and the mean of one series, of a server that stores them.
func checkRings(ctx context.Context, server *target.Server, form workload.Form, rings []*ring, points int64) error {
	to := baseSeconds
	for _, ring := range rings {
		to = max(to, ring.toS())
	}
	all := target.Query{Kind: target.Count, Form: form, Device: target.All, Sensor: target.All, FromS: baseSeconds, ToS: to}
	err := check(ctx, server, all, target.Answer{Points: 1, Value: float64(points)})
	if errors.Is(err, target.ErrStoresNothing) {
		return nil
	}
	if err != nil {
		return err
	}
	one := target.Query{Kind: target.Mean, Form: form, Device: rings[7].device, Sensor: 0, FromS: baseSeconds, ToS: rings[7].toS()}
	return check(ctx, server, one, target.Answer{Points: 1, Value: rings[7].mean()})
}
