package storage

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// samplesBody returns the body of an entry with one batch.
func samplesBody(batch []byte) []byte {
	body := entry.AppendTime(nil, 0)
	return append(entry.AppendBatchHeader(body, series.BatchID{}, len(batch)), batch...)
}

// TestWindowsOfAnyWidth: windows at the ends of what numbers can hold are answered
// or refused. Their arithmetic must not wrap around: such a window would never end.
func TestWindowsOfAnyWidth(t *testing.T) {
	e, err := Open(Options{FS: vfs.NewMemFS(), Dir: "/data", Shards: 1, ExtentBytes: extentBytesSmall, SyncLog: func() error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	times := []int64{scan.TimeMsMin, -1, 5000, scan.TimeMsMax}
	var batch series.BatchEncoder
	series0 := batch.Define(benchKey(0))
	for _, at := range times {
		batch.Append(series0, at, 1, 0)
	}
	if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: 1, Body: samplesBody(batch.AppendTo(nil))}); err != nil {
		t.Fatal(err)
	}
	ends := []int64{math.MinInt64, math.MinInt64 + 1, scan.TimeMsMin - 1, scan.TimeMsMin, -1, 0, 1, 1000, scan.TimeMsMax, scan.TimeMsMax + 1, read.WindowMsMax, read.WindowMsMax + 1, math.MaxInt64}
	for _, origin := range ends {
		for _, width := range ends {
			request := &scan.Request{
				Selector: scan.Selector{Metric: "cpu.usage"}, FromMs: math.MinInt64, ToMs: math.MaxInt64,
				Windows: &scan.Windows{OriginMs: origin, WidthMs: width, Aggregates: scan.AggregateCount},
			}
			count := int64(0)
			err := e.Scan(context.Background(), request, func(_ int, c *scan.Chunk) error {
				for i, n := range c.Count {
					if width > 0 && (c.Times[i]-origin)%width != 0 {
						t.Errorf("origin %d, width %d: a window at %d", origin, width, c.Times[i])
					}
					count += n
				}
				return nil
			})
			legal := width > 0 && width <= read.WindowMsMax && origin >= scan.TimeMsMin && origin <= scan.TimeMsMax
			if legal != (err == nil) || legal && count != int64(len(times)) {
				t.Errorf("origin %d, width %d: %d samples, %v", origin, width, count, err)
			}
		}
	}
}

// TestScanHoldsBytes: a series of which pages have much, out of the order of time, is
// refused before the scan holds more than it may, and is read where the range is narrow or
// where the pages are in order.
func TestScanHoldsBytes(t *testing.T) {
	const samples, bytesMax = 50_000, 256 << 10
	e, err := Open(Options{FS: vfs.NewMemFS(), Dir: "/data", Shards: 1, ExtentBytes: extentBytesSmall, SyncLog: func() error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const startMs = 1_750_000_000_000
	index := uint64(0)
	write := func(fromMs int64, count int) {
		var batch series.BatchEncoder
		only := batch.Define(benchKey(0))
		for i := range int64(count) {
			batch.Append(only, fromMs+i*1000, i%97, 1)
		}
		index++
		if err := e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: index, Body: samplesBody(batch.AppendTo(nil))}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(seconds, bytesMax, want int64) {
		request := &scan.Request{Selector: scan.Selector{Metric: "cpu.usage"}, Limits: scan.Limits{BytesMax: bytesMax}}
		request.FromMs, request.ToMs = startMs+(samples-seconds)*1000, startMs+samples*1000
		count := int64(0)
		err := e.Scan(context.Background(), request, func(_ int, chunk *scan.Chunk) error {
			count += int64(len(chunk.Times))
			return nil
		})
		var limit *scan.LimitError
		if errors.As(err, &limit) {
			count = -1
		} else if err != nil {
			t.Fatal(err)
		}
		if count != want || limit != nil && limit.What != "bytes" {
			t.Errorf("%d s within %d bytes: %d samples, %v", seconds, bytesMax, count, err)
		}
	}
	write(startMs, samples)
	check(samples, 0, samples)
	check(samples, bytesMax, samples)
	check(samples, bytesMax/16, -1) // not even the pages
	write(startMs+500, 1)
	check(samples, 0, samples+1)
	check(samples, 1<<30, samples+1)
	check(samples, bytesMax, -1)
	check(1000, bytesMax, 1000)
	charged := &account{most: 1 << 40}
	scanFor := func() (count int, err error) {
		request := &scan.Request{Selector: scan.Selector{Metric: "cpu.usage"}, ToMs: scan.TimeMsMax, Limits: scan.Limits{Account: charged}}
		err = e.Scan(context.Background(), request, func(_ int, chunk *scan.Chunk) error {
			count += len(chunk.Times)
			return nil
		})
		return count, err
	}
	if count, err := scanFor(); err != nil || count != samples+1 || charged.held != 0 || charged.top < 36*samples || charged.top > 48*samples {
		t.Errorf("%d samples, %v; %d bytes were charged at most, %d are left", count, err, charged.top, charged.held)
	}
	charged = &account{most: charged.top / 2}
	if _, err := scanFor(); !errors.Is(err, errAccount) || charged.held != 0 {
		t.Errorf("of a full account: %v; %d bytes are left", err, charged.held)
	}
}

// account notes what is charged. It refuses what is beyond most.
type account struct{ held, most, top int64 }

var errAccount = errors.New("the account is full")

func (a *account) Take(bytes int64) error {
	if a.held+bytes > a.most {
		return errAccount
	}
	a.held += bytes
	a.top = max(a.top, a.held)
	return nil
}

func (a *account) Await(_ context.Context, bytes int64) error { return a.Take(bytes) }

func (a *account) Turn() chan struct{} { return make(chan struct{}, 1) }

func (a *account) Give(bytes int64) { a.held -= bytes }
