package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// question is a kind of query whose series and hour are drawn anew each time.
type question struct {
	name           string
	kind           target.Kind
	device, sensor bool // one, rather than all
	points         int  // values in the answer
}

// Questions that aims are of.
const (
	minutesOverAll = "1 h by minute over 2,000 series"
	minutesOfEach  = "1 h by minute of each of 2,000 series"
)

var questions = [...]question{
	{"point of 1 series", target.Point, true, true, 1},
	{"1 h of 1 series", target.Raw, true, true, 3600},
	{"1 h mean of 1 series", target.Mean, true, true, 1},
	{"1 h by minute of 1 series", target.Minutes, true, true, 60},
	{"1 h by minute over 10 series", target.Minutes, true, false, 60},
	{minutesOverAll, target.Minutes, false, false, 60},
	{minutesOfEach, target.EachMinutes, false, false, 60 * connectionCount * workload.SensorCount},
}

// draw makes a query; hours is the number of whole hours of data.
func (q question) draw(random *rand.Rand, hours int) target.Query {
	query := target.Query{Kind: q.kind, Form: workload.Line, Device: target.All, Sensor: target.All}
	if q.device {
		query.Device = random.IntN(connectionCount)
	}
	if q.sensor {
		query.Sensor = random.IntN(workload.SensorCount)
	}
	query.FromS = baseSeconds + 3600*int64(random.IntN(hours))
	query.ToS = query.FromS + 3600
	if q.kind == target.Point {
		query.FromS += int64(random.IntN(3600))
		query.ToS = query.FromS + 1
	}
	return query
}

// expect computes the answer from the made data, by simple loops.
func expect(q target.Query, points int, noise bool) target.Answer {
	sum, count := 0.0, 0
	for device := range connectionCount {
		if q.Device != target.All && q.Device != device {
			continue
		}
		made := workload.NewDevice(seed, device, noise)
		for at := baseSeconds; at < q.ToS; at++ {
			row := made.Next()
			for sensor := range row {
				if at >= q.FromS && (q.Sensor == target.All || q.Sensor == sensor) {
					sum += row[sensor].Float()
					count++
				}
			}
		}
	}
	return target.Answer{Points: points, Value: sum / float64(count)}
}

func runQuery(ctx context.Context, b *bench, t target.Target) error {
	return b.with(ctx, t, nil, 0, func(server *target.Server) error {
		rows := b.config.Scale.QueryRows
		result, err := loadStreams(ctx, server, rows, false)
		if err != nil {
			return err
		}
		b.higher(fmt.Sprintf("load of %d M samples", result.Points/1e6), "ingest", "M points/s", result.PointsPerSecond()/1e6)
		for _, question := range questions {
			for _, clients := range []int{1, 8} {
				if err := ask(ctx, b, server, question, rows/3600, clients, ""); err != nil {
					return fmt.Errorf("%s: %w", question.name, err)
				}
			}
		}
		usage, err := server.Usage()
		b.lower("after all queries", "VmRSS", "MB", float64(usage.RSSBytes)/1e6)
		b.lower("after all queries", "RssAnon", "MB", float64(usage.RSSAnonBytes)/1e6)
		return err
	})
}

// ask measures one kind of query. The values of the first answer, and the number
// of values in every answer, are checked.
func ask(ctx context.Context, b *bench, server *target.Server, question question, hours, clients int, label string) error {
	noise := label != ""
	query := question.draw(rand.New(rand.NewPCG(seed, 1)), hours)
	if err := check(ctx, server, query, expect(query, question.points, noise)); err != nil {
		return err
	}
	before, err := server.Usage()
	if err != nil {
		return err
	}
	times := make([]*hdrhistogram.Histogram, clients)
	failures := make([]error, clients)
	var group sync.WaitGroup
	start := time.Now()
	for client := range clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(client)+2))
			times[client], failures[client] = askRepeatedly(ctx, server, question, hours, random, b.config.Scale.QueryDuration)
		})
	}
	group.Wait()
	elapsed := time.Since(start)
	total := hdrhistogram.New(1, 120_000_000, 3)
	for client := range clients {
		if failures[client] != nil {
			return failures[client]
		}
		total.Merge(times[client])
	}
	after, err := server.Usage()
	if err != nil {
		return err
	}
	which := question.name + label
	if clients > 1 {
		b.higher(which, fmt.Sprintf("rate, %d clients", clients), "queries/s", float64(total.TotalCount())/elapsed.Seconds())
		b.lower(which, fmt.Sprintf("P99, %d clients", clients), "ms", float64(total.ValueAtQuantile(99))/1000)
		return nil
	}
	b.lower(which, "P50", "ms", float64(total.ValueAtQuantile(50))/1000)
	b.lower(which, "P99", "ms", float64(total.ValueAtQuantile(99))/1000)
	b.lower(which, "server CPU", "ms/query", (after.CPU-before.CPU).Seconds()*1000/float64(total.TotalCount()))
	return nil
}

// askRepeatedly asks for the duration, at least three times.
func askRepeatedly(ctx context.Context, server *target.Server, question question, hours int, random *rand.Rand, duration time.Duration) (*hdrhistogram.Histogram, error) {
	times := hdrhistogram.New(1, 120_000_000, 3)
	conn, err := load.Dial(ctx, server.Addresses.HTTP, 0)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	end := time.Now().Add(duration)
	for times.TotalCount() < 3 || time.Now().Before(end) {
		query := question.draw(random, hours)
		request := server.QueryRequest(query)
		if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			return nil, err
		}
		start := time.Now()
		status, body, err := conn.RoundTrip(request)
		micros := time.Since(start).Microseconds()
		if err == nil && status != 200 {
			err = fmt.Errorf("status %d: %.300s", status, body)
		}
		if err != nil {
			return nil, err
		}
		_ = times.RecordValue(min(max(micros, 1), 120_000_000))
		answer, err := server.Parse(query, body)
		if err != nil {
			return nil, err
		}
		if answer.Points != question.points {
			return nil, fmt.Errorf("%w: query %+v gives %d values, want %d", ErrCheck, query, answer.Points, question.points)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return times, nil
}
