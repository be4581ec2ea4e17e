package node

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// liveWriter writes each of its series once a round, a frame at a time.
type liveWriter struct {
	node   *Node
	counts [liveShards]int // series of each shard
	next   [liveShards]int
	frame  series.Frame
	points int
	round  int64
}

const (
	liveSeries  = 2_000_000
	liveShards  = 128
	livePoints  = 16 // of a shard in a frame
	liveRate    = 500_000
	liveStartMs = 1_750_000_000_000
)

func liveKey(i int) series.Key {
	var host, sensor [16]byte
	return series.AppendKey(nil, nil, []byte("m"), []series.Tag{
		{Name: []byte("host"), Value: strconv.AppendInt(append(host[:0], "h_"...), int64(i/10), 10)},
		{Name: []byte("sensor"), Value: strconv.AppendInt(append(sensor[:0], "s_"...), int64(i%10), 10)},
	})
}

// create writes the first sample of all series.
func (w *liveWriter) create(b *testing.B) {
	var encoders [liveShards]series.BatchEncoder
	send := func() {
		w.frame = series.Frame{}
		for shard := range encoders {
			if e := &encoders[shard]; e.Points() > 0 {
				w.frame.Parts = append(w.frame.Parts, series.Part{Shard: uint16(shard), Batch: e.AppendTo(nil)})
				w.frame.Points += e.Points()
				e.Reset()
			}
		}
		if _, err := w.node.Write(context.Background(), &w.frame); err != nil {
			b.Fatal(err)
		}
	}
	for i := range liveSeries {
		key := liveKey(i)
		shard := key.Shard(liveShards)
		w.counts[shard]++
		e := &encoders[shard]
		e.Append(e.Define(key), liveStartMs, int64(i), 1)
		if i%10_000 == 9_999 {
			send()
		}
	}
	send()
}

// step writes the next few series of each shard.
func (w *liveWriter) step() error {
	w.frame = series.Frame{Parts: w.frame.Parts[:0]}
	var e series.BatchEncoder
	for shard := range liveShards {
		e.Reset()
		for range livePoints {
			if w.next[shard] == w.counts[shard] {
				w.next[shard] = 0
				if shard == 0 {
					w.round++
				}
			}
			e.Append(series.ID(w.next[shard]), liveStartMs+(w.round+1)*10_000, w.round*7+int64(w.next[shard]%100), 1)
			w.next[shard]++
		}
		w.frame.Parts = append(w.frame.Parts, series.Part{Shard: uint16(shard), Batch: e.AppendTo(nil)})
		w.frame.Points += livePoints
	}
	w.points += w.frame.Points
	_, err := w.node.Write(context.Background(), &w.frame)
	return err
}

// BenchmarkReadUnderWrite reads the series of a host while 2 M series are being written,
// half a million points a second, and as often does nothing but arithmetic for as long
// as such a read takes, which tells what the machine and the collector make of it.
func BenchmarkReadUnderWrite(b *testing.B) {
	o := testOptions(vfs.OS(), SyncOff)
	o.DataDir, o.Shards, o.LogFileBytes, o.ExtentBytes, o.GenerationBytesMax, o.PersistSeriesMin = filepath.Join(b.TempDir(), "data"), liveShards, 0, 0, 0, 0
	o.CheckpointBytes, o.FlushInterval, o.SyncInterval = 64<<20, 2*time.Second, time.Second
	n, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	w := &liveWriter{node: n}
	w.create(b)
	var stop atomic.Bool
	done := make(chan error)
	go func() {
		start := time.Now()
		for !stop.Load() {
			if err := w.step(); err != nil {
				done <- err
				return
			}
			time.Sleep(time.Until(start.Add(time.Duration(w.points) * time.Second / liveRate)))
		}
		done <- nil
	}()
	rng := rand.New(rand.NewPCG(1, 2))
	var reads, idle []time.Duration
	sink := 0.0
	for b.Loop() {
		host := "h_" + strconv.Itoa(rng.IntN(liveSeries/10))
		start := time.Now()
		err := n.Scan(context.Background(), &scan.Request{
			Selector: scan.Selector{Metric: "m", Matchers: []scan.Matcher{{Name: "host", Kind: scan.MatchEqual, Values: []string{host}}}},
			FromMs:   liveStartMs, ToMs: liveStartMs + 3_600_000, Parallel: 2,
		}, func(int, *scan.Chunk) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		reads = append(reads, time.Since(start))
		start = time.Now()
		for i := range 20_000 {
			sink += float64(i) * 0.5
		}
		idle = append(idle, time.Since(start))
		time.Sleep(time.Millisecond)
	}
	stop.Store(true)
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	_ = sink
	for name, times := range map[string][]time.Duration{"read": reads, "arithmetic": idle} {
		slices.Sort(times)
		for quantile, per := range map[string]int{"P50": 500, "P99": 990, "P999": 999} {
			b.ReportMetric(float64(times[len(times)*per/1000].Microseconds())/1000, name+"-"+quantile+"-ms")
		}
	}
	b.ReportMetric(float64(w.points)/b.Elapsed().Seconds()/1e3, "kpoints/s")
}
