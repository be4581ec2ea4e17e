package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

const (
	churnShare  = 20 // of the devices, one in so many ends each round, and another begins
	recentS     = int64(300)
	recentRound = recentS / cardinalityStepS
)

// runChurn writes rounds of points while devices end and others begin, and asks for the last minutes before and afterwards.
func runChurn(ctx context.Context, b *bench, t target.Target) error {
	scale := b.config.Scale
	live := scale.ChurnSeries / workload.SensorCount * workload.SensorCount
	which := fmt.Sprintf("%d k live series, %d k in all", live/1000, (live+live/churnShare*scale.ChurnRounds)/1000)
	if most, reason := t.SeriesMax(); most > 0 && live > most {
		b.note("%s: %s", t.Name(), reason)
		return nil
	}
	return b.with(ctx, t, nil, 0, func(server *target.Server) error {
		c := churn{bench: b, server: server, fleet: newFleet(0, live/workload.SensorCount), live: int64(live)}
		if err := c.rounds(ctx, int(recentRound), 0); err != nil {
			return err
		}
		before, err := c.recent(ctx)
		if err != nil {
			return err
		}
		usage, err := server.Usage()
		if err != nil {
			return err
		}
		sent := c.sent
		if err := c.rounds(ctx, scale.ChurnRounds, churnShare); err != nil {
			return err
		}
		after, err := server.Usage()
		if err != nil {
			return err
		}
		b.lower(which, "server CPU, rounds with new series", "µs/point", (after.CPU-usage.CPU).Seconds()*1e6/float64(c.sent-sent))
		b.lower(which, "VmRSS", "bytes/live series", float64(after.RSSBytes)/float64(live))
		recent, err := c.recent(ctx)
		if err != nil {
			return err
		}
		b.lower(which, "last 5 min by minute before, P50", "ms", before)
		b.lower(which, "last 5 min by minute afterwards, P50", "ms", recent)
		return nil
	})
}

// churn is a server that is written to by a fleet whose devices change.
type churn struct {
	bench  *bench
	server *target.Server
	fleet  *fleet
	live   int64
	round  int
	sent   int64
}

// rounds sends rounds of points. With share, one device in so many is replaced before each.
func (c *churn) rounds(ctx context.Context, rounds, share int) error {
	for range rounds {
		if share > 0 {
			c.fleet.replace(share)
		}
		result, err := send(ctx, c.server, target.HTTPLine, c.fleet.round(c.server, target.HTTPLine, c.round, false), 0, c.sent)
		if err != nil {
			return fmt.Errorf("round %d: %w", c.round+1, err)
		}
		c.sent += result.Points
		c.round++
	}
	return nil
}

// recent returns the median time of questions for the last minutes.
func (c *churn) recent(ctx context.Context) (float64, error) {
	return askRecent(ctx, c.bench, c.server, baseSeconds+int64(c.round)*cardinalityStepS, c.live*recentRound)
}

// askRecent asks for means by minute over the last recentS seconds before a time again and again, and returns the median time in ms. The
// number of samples there is checked first.
func askRecent(ctx context.Context, b *bench, server *target.Server, toS, samples int64) (float64, error) {
	if err := server.Publish(ctx, server); err != nil {
		return math.NaN(), err
	}
	count := target.Query{Kind: target.Count, Form: workload.Line, Device: target.All, Sensor: target.All, FromS: toS - recentS, ToS: toS}
	if err := check(ctx, server, count, target.Answer{Points: 1, Value: float64(samples)}); err != nil {
		return math.NaN(), err
	}
	query := count
	query.Kind = target.Minutes
	var times []float64
	for end := time.Now().Add(b.config.Scale.QueryDuration); len(times) < 3 || time.Now().Before(end); {
		start := time.Now()
		answer, err := server.Ask(ctx, query)
		if err != nil {
			return math.NaN(), err
		}
		times = append(times, float64(time.Since(start).Microseconds())/1000)
		if answer.Points != int(recentS/60) {
			return math.NaN(), fmt.Errorf("%w: query %+v has %d values, want %d", ErrCheck, query, answer.Points, recentS/60)
		}
	}
	return median(times), nil
}

// replace ends one device in so many, the oldest, and begins as many.
func (f *fleet) replace(share int) {
	for part, devices := range f.parts {
		count := len(devices) / share
		devices = slices.Clone(devices[count:])
		for range count {
			devices = append(devices, workload.NewDevice(seed, f.next, false))
			f.next++
		}
		f.parts[part] = devices
	}
}
