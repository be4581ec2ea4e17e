package client_test

import (
	"context"
	"testing"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/api/apitest"
)

// discard is a storage that takes everything and keeps nothing.
type discard struct{}

func (discard) Write(context.Context, *series.Frame) (series.Outcome, error) {
	return series.Outcome{Copies: 1}, nil
}

// BenchmarkWriter measures a point's whole way from Append to the encoded frame, over
// gRPC and the loopback interface, client and server in one process.
func BenchmarkWriter(b *testing.B) {
	o := apitest.Options(apitest.NewStorage(128))
	o.Writer = discard{}
	s, err := apitest.Start(o, "")
	if err != nil {
		b.Fatal(err)
	}
	defer s.Kill()
	c, err := client.New(client.Options{Endpoints: []string{s.Address}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	w := newWriter(b, c, client.WriterOptions{})
	var list []*client.Series
	for i := range 100 {
		list = append(list, client.MustSeries("cpu", client.Tag{Name: "host", Value: string(rune('a' + i))}))
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if err := w.Append(b.Context(), list[n%len(list)], int64(n/len(list))*1000, float64(n%1000)/100); err != nil {
			b.Fatal(err)
		}
		n++
	}
	if err := w.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "points/s")
}
