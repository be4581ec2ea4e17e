package promql

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// The data of the benchmarks: many series for ten minutes, some for an hour, one for days.
const (
	benchEndMs   = 1_750_003_600_000
	benchStepMs  = 10_000
	benchMany    = 100_000
	benchManyRow = 60
	benchSome    = 2_000
	benchSomeRow = 360
	benchLongRow = 3 * 8640
)

// discard is a ResponseWriter that counts.
type discard struct {
	header http.Header
	status int
	bytes  int64
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(s int)   { d.status = s }
func (d *discard) Write(b []byte) (int, error) {
	d.bytes += int64(len(b))
	return len(b), nil
}

// benchNode is a node with the data, on disk, as it is while it is written: most of it in
// pages, none sealed by hand.
func benchNode(b *testing.B) *node.Node {
	b.Helper()
	n, err := node.Open(node.Options{FS: vfs.OS(), DataDir: filepath.Join(b.TempDir(), "data"), Shards: 16, Sync: node.SyncOff})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := n.Close(); err != nil {
			b.Error(err)
		}
	})
	many := make([]series.Key, benchMany)
	for i := range many {
		many[i] = benchKey("cpu_usage", i)
	}
	some := make([]series.Key, benchSome)
	for i := range some {
		some[i] = benchKey("requests_total", i)
	}
	fill(b, n, many, benchManyRow)
	fill(b, n, some, benchSomeRow)
	fill(b, n, []series.Key{benchKey("long", 0)}, benchLongRow)
	return n
}

func benchKey(metric string, i int) series.Key {
	return series.AppendKey(nil, nil, []byte(metric), []series.Tag{
		{Name: []byte("host"), Value: fmt.Appendf(nil, "host-%05d", i/10)},
		{Name: []byte("job"), Value: []byte("node")},
		{Name: []byte("region"), Value: fmt.Appendf(nil, "eu-%d", i/10%20)},
		{Name: []byte("sensor"), Value: fmt.Appendf(nil, "s%d", i%10)},
	})
}

// fill writes rows of one sample of each series.
func fill(b *testing.B, n *node.Node, keys []series.Key, rows int) {
	b.Helper()
	const inFrame = 5000
	for row := range rows {
		at := int64(benchEndMs - (rows-1-row)*benchStepMs)
		for from := 0; from < len(keys); from += inFrame {
			part := keys[from:min(from+inFrame, len(keys))]
			encoders := make([]series.BatchEncoder, n.Shards())
			for i, key := range part {
				e := &encoders[key.Shard(n.Shards())]
				e.Append(e.Define(key), at, int64(row*100+(from+i)%97), 1)
			}
			frame := series.Frame{Points: len(part)}
			for shard := range encoders {
				frame.Parts = append(frame.Parts, series.Part{Shard: uint16(shard), Batch: encoders[shard].AppendTo(nil)})
			}
			if _, err := n.Write(context.Background(), &frame); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// ask runs one query and returns the size of the answer.
func ask(b *testing.B, h http.Handler, path string, form url.Values) int64 {
	r := httptest.NewRequest(http.MethodGet, pathPrefix+path+"?"+form.Encode(), nil)
	w := &discard{header: http.Header{}, status: http.StatusOK}
	access.Open(h).ServeHTTP(w, r)
	if w.status != http.StatusOK {
		b.Fatalf("%s: status %d", form.Get("query"), w.status)
	}
	return w.bytes
}

// processorTime is what this process has used so far.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func BenchmarkQueries(b *testing.B) {
	h := New(Options{Source: scan.Source(benchNode(b))})
	at, from := fmt.Sprint(benchEndMs/1000), fmt.Sprint(benchEndMs/1000-3600+300)
	for _, q := range []struct {
		name, path, query string
	}{
		{"last_100k", "query", `cpu_usage`},
		{"sum_by_100k", "query", `sum by (region) (cpu_usage)`},
		{"sum_100k", "query", `sum(cpu_usage)`},
		{"topk_100k", "query", `topk(10, cpu_usage)`},
		{"regexp_100k", "query", `cpu_usage{host=~"host-0.*7"}`},
		{"rate_2k_by_minute", "query_range", `rate(requests_total[5m])`},
		{"sum_rate_2k_by_minute", "query_range", `sum by (region) (rate(requests_total[5m]))`},
		{"avg_2k_by_minute", "query_range", `avg(avg_over_time(requests_total[1m]))`},
		{"avg_100k_last_minutes", "query_range", `avg(avg_over_time(cpu_usage[1m]))`},
		{"sum_by_host_20k", "query_range", `sum by (host) (cpu_usage{host=~"host-0[01].*"})`},
		{"ten_groups_of_five", "query_range", `sum by (sensor) (rate(requests_total{host=~"host-0000[0-4]"}[5m]))`},
		{"topk_2k_by_minute", "query_range", `topk(10, max_over_time(requests_total[1m]))`},
		{"days_by_hour", "query_range", `avg_over_time(long[1h])`},
		{"plain_2k_by_minute", "query_range", `requests_total`},
		{"max_over_time_2k", "query", `max_over_time(requests_total[1h])`},
		{"hour_of_one", "query_range", `requests_total{host="host-00007",sensor="s3"}`},
		{"hour_of_ten", "query_range", `requests_total{host="host-00007"}`},
		{"newest_of_one", "query", `requests_total{host="host-00007",sensor="s3"}`},
		{"past_of_one", "query", `requests_total{host="host-00007",sensor="s3"} offset 10m`},
		{"mean_of_one", "query", `avg_over_time(requests_total{host="host-00007",sensor="s3"}[1h])`},
	} {
		b.Run(q.name, func(b *testing.B) {
			form := url.Values{"query": {q.query}, "time": {at}, "start": {from}, "end": {at}, "step": {"60"}}
			if q.name == "days_by_hour" {
				form.Set("start", fmt.Sprint(benchEndMs/1000-71*3600))
				form.Set("step", "3600")
			}
			if strings.HasSuffix(q.name, "last_minutes") || strings.HasSuffix(q.name, "20k") {
				form.Set("start", fmt.Sprint(benchEndMs/1000-240))
			}
			if strings.HasPrefix(q.name, "hour") {
				form.Set("step", "10")
			}
			var bytes int64
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				bytes = ask(b, h, q.path, form)
			}
			b.ReportMetric(float64(bytes), "answer-bytes")
			b.ReportMetric((processorTime(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op") // says more than time on a busy machine
		})
	}
}
