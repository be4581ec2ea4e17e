package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/api/apitest"
)

// startExample starts a server in this process, as the examples need one.
func startExample() (address string, stop func()) {
	s, err := apitest.Start(apitest.Options(apitest.NewStorage(4)), "")
	if err != nil {
		log.Fatal(err)
	}
	return s.Address, s.Kill
}

func Example() {
	address, stop := startExample()
	defer stop()
	ctx := context.Background()

	c, err := client.New(client.Options{Endpoints: []string{address}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	w, err := c.NewWriter(client.WriterOptions{BatchDelay: 100 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	cpu := client.MustSeries("cpu", client.Tag{Name: "host", Value: "a"})
	for i := range int64(4) {
		if err := w.Append(ctx, cpu, 1_700_000_000_000+i*15_000, float64(i)/4); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(ctx); err != nil { // sends the rest, and tells what was lost
		log.Fatal(err)
	}

	query := client.Query{
		Selector: scan.Selector{Metric: "cpu", Matchers: []scan.Matcher{{Name: "host", Kind: scan.MatchEqual, Values: []string{"a"}}}},
		FromMs:   1_700_000_000_000, ToMs: 1_700_000_060_000,
	}
	for chunk, err := range c.Query(ctx, query) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(chunk.Series, chunk.Values)
	}
	// Output: cpu{host=a} [0 0.25 0.5 0.75]
}

func ExampleClient_Write() {
	address, stop := startExample()
	defer stop()
	c, err := client.New(client.Options{Endpoints: []string{address}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	room := client.MustSeries("temperature", client.Tag{Name: "room", Value: "cellar"})
	err = c.Write(ctx, client.Sample{Series: room, TimeMs: 1_700_000_000_000, Value: 8.5})
	switch {
	case err == nil:
		fmt.Println("written")
	case errors.Is(err, client.ErrSeriesLimit):
		fmt.Println("there are too many series")
	default: // ErrUnavailable, ErrOverloaded, a deadline: it may have been written
		log.Fatal(err)
	}
	// Output: written
}

func ExampleClient_Query_windows() {
	address, stop := startExample()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Options{Endpoints: []string{address}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	room := client.MustSeries("temperature", client.Tag{Name: "room", Value: "attic"})
	for i := range int64(6) {
		if err := c.Write(ctx, client.Sample{Series: room, TimeMs: i * 10_000, Value: float64(i)}); err != nil {
			log.Fatal(err)
		}
	}

	for chunk, err := range c.Query(ctx, client.Query{
		Selector: scan.Selector{Metric: "temperature"}, ToMs: 60_000,
		Windows: &scan.Windows{WidthMs: 30_000, Aggregates: scan.AggregateMax | scan.AggregateCount},
	}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(chunk.TimesMs, chunk.Max, chunk.Count)
	}
	// Output: [0 30000] [2 5] [3 3]
}

func ExampleClient_Metrics() {
	address, stop := startExample()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Options{Endpoints: []string{address}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for _, metric := range []string{"cpu", "memory", "disk"} {
		if err := c.Write(ctx, client.Sample{Series: client.MustSeries(metric), TimeMs: 1}); err != nil {
			log.Fatal(err)
		}
	}
	names, err := c.Metrics(ctx, "", client.Names{Limit: 2})
	fmt.Println(names, err)

	touched, err := c.Delete(ctx, scan.Selector{Metric: "cpu"}, scan.TimeMsMin, scan.TimeMsMax)
	fmt.Println(touched, err)
	// Output:
	// [cpu disk] <nil>
	// 1 <nil>
}

func ExampleClient_Status() {
	address, stop := startExample()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Options{Endpoints: []string{address}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	status, err := c.Status(ctx, true)
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range status.Nodes {
		fmt.Println(n.Node, n.Alive, n.Leads)
	}
	_, err = c.Drain(ctx, "node-9", true)
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output:
	// node-1 true 4
	// true
}
