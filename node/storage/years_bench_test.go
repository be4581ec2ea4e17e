package storage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// tenYears are written, joined and read by the benchmark and the test of years.
const tenYears = 3652

// writeYears writes ten years of some series, in order of time, and merges them by a clock
// that follows the data, until months are joined.
func writeYears(tb testing.TB, o Options, ids int, stepMs int64) *Engine {
	tb.Helper()
	e, err := Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	applied := uint64(0)
	settle := func(nowMs int64) {
		if err := e.Checkpoint(Checkpoint{Applied: []uint64{applied}, SealAll: true}); err != nil {
			tb.Fatal(err)
		}
		if err := e.Flush(); err != nil {
			tb.Fatal(err)
		}
		for more := true; more; {
			if more, err = e.Compact(context.Background(), nowMs); err != nil {
				tb.Fatal(err)
			}
		}
	}
	for day := range int64(tenYears) {
		for id := range ids {
			var batch series.BatchEncoder
			at := batch.Define(benchKey(id))
			for i := range segment.DayMs / stepMs {
				batch.Append(at, rollupStartMs+day*segment.DayMs+i*stepMs, yearValue(day, i, id), 2)
			}
			applied++
			if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: applied, Body: samplesBody(batch.AppendTo(nil))}); err != nil {
				tb.Fatal(err)
			}
		}
		if day%90 == 89 {
			settle(rollupStartMs + day*segment.DayMs)
		}
	}
	settle(rollupStartMs + (tenYears+100)*segment.DayMs)
	return e
}

// yearValue is a gauge in hundredths, with its least and greatest value of a day at other times each day.
func yearValue(day, i int64, id int) int64 { return (i*i+day*7+int64(id))%977 + day%31 }

// BenchmarkDaysOfYears asks for windows by day over ten years of eight series with a sample each
// minute. Disk-B/op is what a query reads that finds no segment in memory.
func BenchmarkDaysOfYears(b *testing.B) { benchmarkYears(b, false) }

// BenchmarkDaysOfThinnedYears asks for the same where of each hour the last sample is kept, beside rollups of all. B/sample is of
// the samples that were written.
func BenchmarkDaysOfThinnedYears(b *testing.B) { benchmarkYears(b, true) }

// thinYears thins all files of writeYears.
func thinYears(tb testing.TB, e *Engine) {
	tb.Helper()
	index := e.AppliedIndexes()[0] + 1
	cuts := retention.Cuts{OtherMs: rollupStartMs + (tenYears+31)*segment.DayMs}
	if err := e.Apply(0, &entry.Entry{Kind: entry.ThinCuts, Term: 1, Index: index, Body: retention.Encode(&cuts)}); err != nil {
		tb.Fatal(err)
	}
	_, err := e.PrepareThin(func() error { return e.Checkpoint(Checkpoint{Applied: []uint64{index}, SealAll: true}) })
	for more := true; more && err == nil; {
		more, err = e.Compact(context.Background(), rollupStartMs+(tenYears+100)*segment.DayMs)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func benchmarkYears(b *testing.B, thinned bool) {
	const ids, stepMs = 8, 60_000
	o := Options{FS: vfs.OS(), Dir: filepath.Join(b.TempDir(), "data"), Shards: 1, SyncLog: func() error { return nil }}
	e := writeYears(b, o, ids, stepMs)
	if thinned {
		thinYears(b, e)
	}
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
	files, samples := segmentBytes(b, o.Dir), ids*tenYears*segment.DayMs/stepMs
	for _, c := range []struct {
		name       string
		aggregates scan.Aggregate // none: the newest samples at steps
		widthMs    int64
	}{
		{"mean", scan.AggregateSum | scan.AggregateCount, segment.DayMs},
		{"max", scan.AggregateMax, segment.DayMs},
		{"last", scan.AggregateLast, segment.DayMs},
		{"all", scan.AggregateSum | scan.AggregateCount | scan.AggregateMin | scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast, segment.DayMs},
		{"last/hours", scan.AggregateLast, segment.HourMs},
		{"newest", 0, segment.DayMs},
		{"newest/hours", 0, 8 * segment.HourMs},
	} {
		b.Run(c.name, func(b *testing.B) {
			forgetSegments(b, o.Dir)
			e, err := Open(o)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			want := ids * tenYears * segment.DayMs / c.widthMs
			if thinned && c.aggregates == 0 {
				want -= ids // the sample of the first step is not the last one of its hour
			}
			query := func() {
				windows := int64(0)
				request := &scan.Request{
					Selector: scan.Selector{Metric: "cpu.usage"}, FromMs: rollupStartMs, ToMs: rollupStartMs + tenYears*segment.DayMs - 1,
				}
				if c.aggregates != 0 {
					request.Windows = &scan.Windows{WidthMs: c.widthMs, Aggregates: c.aggregates}
				} else {
					request.Steps = &scan.Steps{FirstMs: request.FromMs, LastMs: request.ToMs, StepMs: c.widthMs, RangeMs: 300_000, Function: scan.StepNewest}
				}
				err := e.Scan(context.Background(), request, func(_ int, c *scan.Chunk) error { windows += int64(len(c.Times)); return nil })
				if err != nil || windows != want {
					b.Fatal(windows, err)
				}
			}
			before, stats := bytesRead(b), e.Stats()
			query()
			cold, after := bytesRead(b)-before, e.Stats()
			for b.Loop() {
				query()
			}
			rollups := after.ScannedRollups - stats.ScannedRollups
			b.ReportMetric(float64(cold), "disk-B/op")
			b.ReportMetric(float64(rollups), "rollups/op")
			b.ReportMetric(float64(after.ScannedSamples-stats.ScannedSamples-rollups), "samples/op")
			b.ReportMetric(float64(files)/float64(samples), "B/sample")
		})
	}
}

func segmentFiles(tb testing.TB, dir string) (names []string) {
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, segment.FileSuffix) {
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) == 0 {
		tb.Fatal(names, err)
	}
	return names
}

func segmentBytes(tb testing.TB, dir string) (bytes int64) {
	for _, name := range segmentFiles(tb, dir) {
		info, err := os.Stat(name)
		if err != nil {
			tb.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes
}

// forgetSegments has the kernel drop what it holds of segments that nobody has open.
func forgetSegments(tb testing.TB, dir string) {
	for _, name := range segmentFiles(tb, dir) {
		f, err := os.Open(name)
		if err == nil {
			err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
			_ = f.Close()
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// bytesRead returns what this process has had read from disks.
func bytesRead(tb testing.TB) (bytes int64) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		tb.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "read_bytes: %d", &bytes); err == nil {
			return bytes
		}
	}
	tb.Skip("the kernel does not count bytes read")
	return 0
}
