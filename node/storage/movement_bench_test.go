package storage

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// benchShard returns an engine on disk with a shard of many series and samples.
func benchShard(b *testing.B, seriesCount, samples int) *Engine {
	b.Helper()
	e, err := Open(Options{
		FS: vfs.OS(), Dir: filepath.Join(b.TempDir(), "data"), Shards: 1, SyncLog: func() error { return nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	for n := range samples {
		var batch series.BatchEncoder
		for i := range seriesCount {
			ref := series.ID(i)
			if n == 0 {
				ref = batch.Define(series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("device"), Value: []byte{byte(i >> 16), byte(i >> 8), byte(i)}}}))
			}
			batch.Append(ref, 1_700_000_000_000+int64(n)*10_000, int64(i*7+n*n%1000), 1)
		}
		encoded := batch.AppendTo(nil)
		body := append(entry.AppendBatchHeader(entry.AppendTime(nil, 0), series.BatchID{}, len(encoded)), encoded...)
		if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Index: uint64(n + 1), Body: body}); err != nil {
			b.Fatal(err)
		}
	}
	return e
}

// BenchmarkMoveShard exports a shard and installs it on another disk folder.
func BenchmarkMoveShard(b *testing.B) {
	const seriesCount, samples = 10_000, 500
	from := benchShard(b, seriesCount, samples)
	defer from.Close()
	x, err := from.ExportShard(0)
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	b.Run("export", func(b *testing.B) {
		b.SetBytes(x.Size())
		for b.Loop() {
			if _, err := x.WriteTo(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("install", func(b *testing.B) {
		to, err := Open(Options{FS: vfs.OS(), Dir: filepath.Join(b.TempDir(), "data"), Shards: 1, SyncLog: func() error { return nil }})
		if err != nil {
			b.Fatal(err)
		}
		defer to.Close()
		b.SetBytes(x.Size())
		for b.Loop() {
			if _, err := to.InstallShard(context.Background(), 0, 0, x.OpenAt(0)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*seriesCount*samples/b.Elapsed().Seconds()/1e6, "Msamples/s")
	})
	b.Run("range", func(b *testing.B) {
		for b.Loop() {
			if err := from.ExportRange(context.Background(), 0, scan.TimeMsMin, scan.TimeMsMax, 0, io.Discard); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*seriesCount*samples/b.Elapsed().Seconds()/1e6, "Msamples/s")
	})
	b.Run("digest", func(b *testing.B) {
		for b.Loop() {
			d, err := from.ShardDigest(context.Background(), 0, scan.TimeMsMin, scan.TimeMsMax)
			if err != nil || d.Samples != seriesCount*samples {
				b.Fatal(d, err)
			}
		}
		b.ReportMetric(float64(b.N)*seriesCount*samples/b.Elapsed().Seconds()/1e6, "Msamples/s")
	})
}

// BenchmarkExportShard pins a shard of which no segment has anything yet.
func BenchmarkExportShard(b *testing.B) {
	const seriesCount, samples = 1_000, 200
	from := benchShard(b, seriesCount, samples)
	defer from.Close()
	for b.Loop() {
		x, err := from.ExportShard(0)
		if err != nil {
			b.Fatal(err)
		}
		if err := x.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*seriesCount*samples/b.Elapsed().Seconds()/1e6, "Msamples/s")
}

// BenchmarkApplySamples applies batches of 200 points of known series, with batch ids
// and without.
func BenchmarkApplySamples(b *testing.B) {
	const points = 200
	for name, session := range map[string]uint64{"plain": 0, "with-ids": 7, "forgotten": 7} {
		b.Run(name, func(b *testing.B) {
			e := benchShard(b, points+1, 1)
			defer e.Close()
			if name == "forgotten" { // then batches are looked through before they are applied
				if err := e.index.Forget(0, []uint32{points}, 1); err != nil {
					b.Fatal(err)
				}
			}
			var batch series.BatchEncoder
			index, timeMs := uint64(1), int64(1_700_000_010_000)
			var body, encoded []byte
			b.ReportAllocs()
			for b.Loop() {
				index++
				timeMs += 10_000
				batch.Reset()
				for i := range points {
					batch.Append(series.ID(i), timeMs, int64(i*7)+int64(index%13), 1)
				}
				encoded = batch.AppendTo(encoded[:0])
				body = entry.AppendBatchHeader(entry.AppendTime(body[:0], timeMs), series.BatchID{Session: session, Counter: index}, len(encoded))
				body = append(body, encoded...)
				if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Index: index, Body: body}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*points/b.Elapsed().Seconds()/1e6, "Mpoints/s")
		})
	}
}
