package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

const (
	queryClients    = 4
	seriesInRequest = 2000
	writeConns      = 10
	readChecks      = int64(3) // answers of each kind whose values are compared
)

func runQueries(ctx context.Context, b *bench, t target.Target) error {
	asked, ok := t.(target.PromQL)
	if !ok {
		b.note("%s: it answers no PromQL", t.Name())
		return nil
	}
	data := makeReadData(b.config.Scale.Reads)
	return b.with(ctx, t, nil, 0, func(server *target.Server) error {
		q := &querying{bench: b, server: server, alone: true, data: data, parameters: asked.APIParameters()}
		return q.run(ctx)
	})
}

// runClusterQueries asks a router with three nodes behind it.
func runClusterQueries(ctx context.Context, b *bench, t target.Target) error {
	tickmesh, ok := b.clustered(t)
	if !ok {
		return nil
	}
	data := makeReadData(b.config.Scale.Reads)
	return b.withCluster(ctx, tickmesh, clusterNodes, 1, func(c *target.Cluster) error {
		q := &querying{bench: b, server: c.Router, data: data, parameters: tickmesh.APIParameters()}
		return q.run(ctx)
	})
}

// querying is workload "queries" on one server.
type querying struct {
	bench      *bench
	server     *target.Server
	alone      bool // the server is one process
	data       *readData
	parameters string
}

// run writes everything and asks all questions, alone and under write.
func (q *querying) run(ctx context.Context) error {
	b := q.bench
	start := time.Now()
	points, err := q.load(ctx)
	if err != nil {
		return err
	}
	b.higher("load", "remote write", "M points/s", float64(points)/1e6/time.Since(start).Seconds())
	if err := q.askAll(ctx, ", alone"); err != nil {
		return err
	}
	if err := q.underWrite(ctx); err != nil {
		return err
	}
	usage, err := q.server.Usage()
	b.lower("after all", "VmRSS", "MB", float64(usage.RSSBytes)/1e6)
	b.lower("after all", "RssAnon", "MB", float64(usage.RSSAnonBytes)/1e6)
	return err
}

// send runs feeds of remote write.
func (q *querying) send(ctx context.Context, feeds []load.Feed, interval time.Duration) (*load.Result, error) {
	result, err := load.HTTP(ctx, load.Options{Address: q.server.Addresses.HTTP, SendBytes: sendBufferBytes, Interval: interval}, feeds)
	if err == nil && result.Errors > 0 {
		err = fmt.Errorf("%d requests were refused; the first: %w", result.Errors, result.ErrorFirst)
	}
	return result, err
}

// load writes everything, older times first, as Prometheus takes no others.
func (q *querying) load(ctx context.Context) (points int64, err error) {
	stages := [][]load.Feed{{q.longFeed()}, {q.fleetFeed()}}
	for _, timeS := range []int64{readEndS - readStepS, readEndS} {
		stages = append(stages,
			q.rounds("wide", q.data.scale.WideSeries, func(int) (int64, bool) { return timeS, true }, 1),
			q.rounds("many", q.data.scale.ManySeries, func(int) (int64, bool) { return timeS, true }, 1))
	}
	for _, feeds := range stages {
		result, err := q.send(ctx, feeds, 0)
		if err != nil {
			return points, err
		}
		points += result.Points
	}
	return points, q.server.Publish(ctx, q.server)
}

func (q *querying) item(w *load.RemoteWrite) load.Item {
	return load.Item{Text: w.Request(q.server.Addresses.HTTP, target.RemoteWritePath), Points: w.Samples()}
}

func (q *querying) longFeed() load.Feed {
	w, values, sent := &load.RemoteWrite{}, q.data.long, 0
	const samples = 1080 // divides a day's
	w.Append([]load.Label{{Name: "__name__", Value: "long"}, {Name: "host", Value: hostName(0)}}, samples)
	fromS := baseSeconds - int64(len(values))*readStepS
	return func() (load.Item, bool) {
		if sent == len(values) {
			return load.Item{}, false
		}
		for i := range samples {
			w.Set(i, (fromS+int64(sent)*readStepS)*1000, values[sent])
			sent++
		}
		return q.item(w), true
	}
}

func (q *querying) fleetFeed() load.Feed {
	w, row := messageOf("fleet", 0, len(q.data.fleet)), 0
	return func() (load.Item, bool) {
		if row == fleetSeconds/readStepS {
			return load.Item{}, false
		}
		for i, values := range q.data.fleet {
			w.Set(i, (baseSeconds+int64(row)*readStepS)*1000, values[row])
		}
		row++
		return q.item(w), true
	}
}

// messageOf has the series [from, to) of a metric with one sample each.
func messageOf(metric string, from, to int) *load.RemoteWrite {
	w := &load.RemoteWrite{}
	for n := from; n < to; n++ {
		w.Append([]load.Label{
			{Name: "__name__", Value: metric}, {Name: "host", Value: hostName(n / workload.SensorCount)},
			{Name: "sensor", Value: workload.SensorName(n % workload.SensorCount)},
		}, 1)
		w.Set(n-from, 0, lastValue(n))
	}
	return w
}

// rounds writes each series of a metric once in each round, at the time that timeS returns,
// until it returns none or all rounds (0: without end) are done.
func (q *querying) rounds(metric string, series int, timeS func(round int) (timeS int64, ok bool), rounds int) []load.Feed {
	feeds := make([]load.Feed, writeConns)
	for conn := range feeds {
		var messages []*load.RemoteWrite
		for from := conn * seriesInRequest; from < series; from += writeConns * seriesInRequest {
			messages = append(messages, messageOf(metric, from, min(series, from+seriesInRequest)))
		}
		sent := 0
		feeds[conn] = func() (load.Item, bool) {
			if len(messages) == 0 || rounds > 0 && sent == rounds*len(messages) {
				return load.Item{}, false
			}
			at, ok := timeS(sent / len(messages))
			if !ok {
				return load.Item{}, false
			}
			w := messages[sent%len(messages)]
			w.SetTimes(at * 1000)
			sent++
			return q.item(w), true
		}
	}
	return feeds
}

// underWrite asks while the series of "many" go on, each round readStepS later.
func (q *querying) underWrite(ctx context.Context) error {
	var stopped atomic.Bool
	feeds := q.rounds("many", q.data.scale.ManySeries, func(round int) (int64, bool) {
		return readEndS + int64(round+1)*readStepS, !stopped.Load()
	}, 0)
	interval := time.Second * seriesInRequest * writeConns / time.Duration(q.data.scale.WriteRate)
	var result *load.Result
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, failed = q.send(ctx, feeds, interval)
	}()
	before, usageErr := q.server.Usage()
	waited, waitErr := coreWait(q.server.PID())
	err := q.askAll(ctx, ", under write")
	stopped.Store(true)
	<-done
	if err = errors.Join(err, failed, usageErr, waitErr); err != nil {
		return err
	}
	after, err := q.server.Usage()
	if err != nil {
		return err
	}
	waitedAfter, err := coreWait(q.server.PID())
	const which = "writes meanwhile"
	q.bench.higher(which, "rate", "k points/s", result.PointsPerSecond()/1e3)
	q.bench.lower(which, "write P50", "ms", float64(result.Writes.ValueAtQuantile(50))/1000)
	q.bench.lower(which, "write P99", "ms", float64(result.Writes.ValueAtQuantile(99))/1000)
	q.bench.lower(which, "server cores used, with the queries", "cores", (after.CPU-before.CPU).Seconds()/result.Elapsed.Seconds())
	if q.alone {
		q.bench.lower(which, "server waits for a core", "threads", max(0, waitedAfter-waited).Seconds()/result.Elapsed.Seconds())
	}
	return err
}

func (q *querying) askAll(ctx context.Context, label string) error {
	for _, r := range q.data.readers() {
		if err := q.measure(ctx, r, r.name+label); err != nil {
			return fmt.Errorf("%s%s: %w", r.name, label, err)
		}
	}
	return nil
}

// measure asks one kind of question with one client, for latencies, and with some, for
// the rate. The values of the first answers, and the number of values in all, are checked.
func (q *querying) measure(ctx context.Context, r reader, which string) error {
	for _, clients := range []int{1, queryClients} {
		times := make([]*hdrhistogram.Histogram, clients)
		failures := make([]error, clients)
		var group sync.WaitGroup
		duration, checks := q.bench.config.Scale.QueryDuration, readChecks
		if clients > 1 {
			duration /= 2 // a rate needs no tail
			checks = 0    // the client would not keep up with what it checks
		}
		start := time.Now()
		for client := range clients {
			group.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(client+clients)))
				times[client], failures[client] = q.repeat(ctx, r, random, duration, checks)
			})
		}
		group.Wait()
		elapsed := time.Since(start)
		if err := errors.Join(failures...); err != nil {
			return err
		}
		total := int64(0)
		for _, t := range times {
			total += t.TotalCount()
		}
		unit := "clients"
		if clients == 1 {
			unit = "client" // which also says of how many queries the tail is
		}
		q.bench.higher(which, fmt.Sprintf("rate, %d %s", clients, unit), "queries/s", float64(total)/elapsed.Seconds())
		if clients > 1 {
			continue
		}
		for _, quantile := range []float64{50, 99, 99.9} {
			q.bench.lower(which, fmt.Sprintf("P%g", quantile), "ms", float64(times[0].ValueAtQuantile(quantile))/1000)
		}
	}
	return nil
}

// repeat asks for the duration, at least readChecks times, and compares the values of so
// many answers.
func (q *querying) repeat(ctx context.Context, r reader, random *rand.Rand, duration time.Duration, checks int64) (*hdrhistogram.Histogram, error) {
	times := hdrhistogram.New(1, 120_000_000, 3)
	conn, err := load.Dial(ctx, q.server.Addresses.HTTP, 0)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for end := time.Now().Add(duration); times.TotalCount() < readChecks || time.Now().Before(end); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		question := r.draw(q.data, random)
		if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			return nil, err
		}
		path := question.path
		if q.parameters != "" {
			path += "&" + q.parameters
		}
		request := load.AppendGet(nil, q.server.Addresses.HTTP, path)
		start := time.Now()
		status, body, err := conn.RoundTrip(request)
		micros := time.Since(start).Microseconds()
		if err == nil && status != 200 {
			err = fmt.Errorf("status %d: %.300s", status, body)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		_ = times.RecordValue(min(max(micros, 1), 120_000_000))
		if err := question.check(body, times.TotalCount() <= checks); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// check compares the number of values of an answer, and with values also their mean.
func (r read) check(body []byte, values bool) error {
	points, err := target.CountAPI(body)
	if err != nil {
		return err
	}
	if points != r.points {
		return fmt.Errorf("%w: %s gives %d values, want %d: %.300s", ErrCheck, r.path, points, r.points, body)
	}
	if !values {
		return nil
	}
	got, err := target.ParseAPI(body)
	if err != nil {
		return err
	}
	if want := r.want(); !(math.Abs(got.Value-want.Value) <= 1e-9*math.Max(1, math.Abs(want.Value))) {
		return fmt.Errorf("%w: %s gives a mean of %v, want %v", ErrCheck, r.path, got.Value, want.Value)
	}
	return nil
}
