package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
)

const (
	lowLoadConns    = 20
	lowLoadInterval = 200 * time.Millisecond // of each connection
	highLoadShare   = 0.95
)

// runLatency measures single writes at three loads, over HTTP and over TCP, where each
// is followed by a command whose reply comes when all before it is written.
func runLatency(ctx context.Context, b *bench, t target.Target) error {
	tickmesh, ok := b.clustered(t)
	if !ok {
		return nil
	}
	for _, protocol := range [...]target.Protocol{target.HTTPLine, target.TCPPut} {
		for copies := 1; copies <= 2; copies++ {
			which := fmt.Sprintf("%s, copies %d", protocol, copies)
			err := b.withCluster(ctx, tickmesh, clusterNodes, copies, func(c *target.Cluster) error {
				return latencies(ctx, b, c.Router, protocol, which)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", which, err)
			}
		}
	}
	return nil
}

func latencies(ctx context.Context, b *bench, server *target.Server, protocol target.Protocol, which string) error {
	rings, feeds := ringsOf(server, protocol, connectionCount)
	points := int64(0)
	once := func(which string, conns int, interval, duration time.Duration) (*load.Result, error) {
		before, err := server.Usage()
		if err != nil {
			return nil, err
		}
		result, err := pacedOver(ctx, server, protocol, feeds[:conns], interval, duration)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", which, err)
		}
		if result.Errors > 0 {
			return nil, fmt.Errorf("%s: %d requests were refused; the first: %w", which, result.Errors, result.ErrorFirst)
		}
		after, err := server.Usage()
		if err != nil {
			return nil, err
		}
		points += result.Points
		b.higher(which, "ingest", "M points/s", result.PointsPerSecond()/1e6)
		b.lower(which, "server cores used", "cores", (after.CPU-before.CPU).Seconds()/result.Elapsed.Seconds())
		b.lower(which, "server CPU", "µs/point", (after.CPU-before.CPU).Seconds()*1e6/float64(result.Points))
		reportTimes(b, which, result)
		return result, nil
	}
	if _, err := pacedOver(ctx, server, protocol, feeds, 0, b.config.Scale.Duration/4); err != nil { // new series
		return err
	}
	if _, err := once(which+", low load", lowLoadConns, lowLoadInterval, b.config.Scale.Duration); err != nil {
		return err
	}
	full, err := once(which+", back to back", connectionCount, 0, b.config.Scale.Duration)
	if err != nil {
		return err
	}
	interval := time.Duration(float64(full.Elapsed) * connectionCount / float64(full.Requests) / highLoadShare)
	if _, err = once(which+", 95 % of that", connectionCount, interval, b.config.Scale.Duration); err != nil {
		return err
	}
	sent := int64(0)
	for _, ring := range rings {
		sent += ring.sent * pointsPerRequest
	}
	return checkRings(ctx, server, protocol.Form(), rings, sent)
}

// httpRings returns feeds for so many connections over HTTP.
func httpRings(server *target.Server, conns int) ([]*ring, []load.Feed) {
	return ringsOf(server, target.HTTPLine, conns)
}

// ringsOf returns feeds for so many connections.
func ringsOf(server *target.Server, protocol target.Protocol, conns int) ([]*ring, []load.Feed) {
	rings, feeds := make([]*ring, conns), make([]load.Feed, conns)
	for i := range rings {
		rings[i] = newRing(server, protocol, i)
		feeds[i] = rings[i].next
	}
	return rings, feeds
}

// pacedOver is paced over HTTP, or over TCP with a fence behind each item.
func pacedOver(ctx context.Context, server *target.Server, protocol target.Protocol, feeds []load.Feed, interval, duration time.Duration) (*load.Result, error) {
	if protocol == target.HTTPLine {
		return paced(ctx, server, feeds, interval, duration)
	}
	return load.TCPSync(ctx, load.Options{
		Address: server.AddressOf(protocol), SendBytes: sendBufferBytes, Interval: interval, Duration: duration,
		Fence: "version\n", FenceLines: 2,
	}, feeds)
}

// paced sends over HTTP and leaves it to the caller what refused requests mean.
func paced(ctx context.Context, server *target.Server, feeds []load.Feed, interval, duration time.Duration) (*load.Result, error) {
	return load.HTTP(ctx, load.Options{
		Address: server.AddressOf(target.HTTPLine), SendBytes: sendBufferBytes, Interval: interval, Duration: duration,
	}, feeds)
}

func reportTimes(b *bench, which string, result *load.Result) {
	for _, quantile := range []float64{50, 99, 99.9} {
		b.lower(which, fmt.Sprintf("write P%g", quantile), "ms", float64(result.Writes.ValueAtQuantile(quantile))/1000)
	}
}
