package split

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/tickmesh/tickmesh/api/parse"
)

// remoteLabels are the labels of a series as a scrape of a small cluster has them.
func remoteLabels(i int) []prompb.Label {
	return []prompb.Label{
		{Name: "__name__", Value: fmt.Sprintf("node_cpu_seconds_total_%d", i%10)},
		{Name: "cpu", Value: fmt.Sprint(i / 10)},
		{Name: "instance", Value: "192.168.17.34:9100"},
		{Name: "job", Value: "node-exporter"},
		{Name: "mode", Value: "idle"},
	}
}

func remoteBody1(row int) []byte {
	var r prompb.WriteRequest
	for i := range 200 {
		r.Timeseries = append(r.Timeseries, prompb.TimeSeries{
			Labels:  remoteLabels(i),
			Samples: []prompb.Sample{{Value: float64(row*i%100000) / 100, Timestamp: 1700000000000 + int64(row)*15000}},
		})
	}
	b, err := r.Marshal()
	if err != nil {
		panic(err)
	}
	return b
}

func remoteBody2(row int) []byte {
	var r writev2.Request
	symbols := writev2.NewSymbolTable()
	for i := range 200 {
		ts := writev2.TimeSeries{Samples: []writev2.Sample{{Value: float64(row*i%100000) / 100, Timestamp: 1700000000000 + int64(row)*15000}}}
		for _, l := range remoteLabels(i) {
			ts.LabelsRefs = append(ts.LabelsRefs, symbols.Symbolize(l.Name), symbols.Symbolize(l.Value))
		}
		r.Timeseries = append(r.Timeseries, ts)
	}
	r.Symbols = symbols.Symbols()
	b, err := r.Marshal()
	if err != nil {
		panic(err)
	}
	return b
}

func BenchmarkRemoteWrite1(b *testing.B) {
	benchmarkStages(b, remoteBodies(remoteBody1), func(batch *parse.Batch, body []byte) error {
		return parse.RemoteWrite(batch, body, parse.RemoteWrite1, parse.Limits{})
	})
}

func BenchmarkRemoteWrite2(b *testing.B) {
	benchmarkStages(b, remoteBodies(remoteBody2), func(batch *parse.Batch, body []byte) error {
		return parse.RemoteWrite(batch, body, parse.RemoteWrite2, parse.Limits{})
	})
}

func remoteBodies(make func(row int) []byte) (bodies [][]byte) {
	for row := range 16 {
		bodies = append(bodies, make(row))
	}
	return bodies
}
