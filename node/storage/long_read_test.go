package storage

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
)

// TestLongReadsStopNoWrites: a reader stands still, in the midst of a series and then between
// series, while more generations of the page log are flushed than there may be at a time. It then
// ends with all that was there when it began.
func TestLongReadsStopNoWrites(t *testing.T) {
	const flushes = 2 * pagelog.GenerationsMax
	ctx := context.Background()
	everything := scan.Request{Selector: scan.Selector{Metric: "m"}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
	windows := everything
	windows.Windows = &scan.Windows{WidthMs: 3600_000, Aggregates: scan.AggregateCount}
	for _, reader := range []struct {
		name   string
		count  int // series
		rows   int // samples of each that are in pages when the reader begins
		second int // turn in which it stands still again
		read   func(e *Engine, wait func()) (samples int, err error)
	}{
		{"scan", 20, 1, 10, func(e *Engine, wait func()) (samples int, err error) {
			err = e.Scan(ctx, &everything, func(_ int, c *scan.Chunk) error { wait(); samples += len(c.Times); return nil })
			return samples, err
		}},
		{"windows", 20, 1, 10, func(e *Engine, wait func()) (samples int, err error) {
			err = e.Scan(ctx, &windows, func(_ int, c *scan.Chunk) error {
				wait()
				for _, n := range c.Count {
					samples += int(n)
				}
				return nil
			})
			return samples, err
		}},
		{"last", 20, 1, 10, func(e *Engine, wait func()) (lasts int, err error) {
			err = e.Last(ctx, &everything.Selector, scan.TimeMsMin, scan.Limits{}, func(scan.Point) error { wait(); lasts++; return nil })
			return lasts, err
		}},
		{"digest", 20, 1, 10, func(e *Engine, wait func()) (int, error) {
			d, err := e.RangeDigest(ctx, 0, scan.TimeMsMin, 1_750_000_001_500, func(int) error { wait(); return nil })
			return int(d.Samples), err
		}},
		{"range", 2000, 40, 2, func(e *Engine, wait func()) (int, error) {
			w := &countingWriter{wait: wait}
			err := e.ExportRange(ctx, 0, scan.TimeMsMin, scan.TimeMsMax, 0, w)
			return w.count, err
		}},
		{"export", 20, 1, 3, func(e *Engine, wait func()) (int, error) {
			x, err := e.ExportShard(0)
			if err != nil {
				return 0, err
			}
			w := &countingWriter{wait: wait}
			_, err = io.Copy(w, x.OpenAt(0))
			return w.count, errors.Join(err, x.Close())
		}},
	} {
		t.Run(reader.name, func(t *testing.T) {
			s := newStaller(t, Options{})
			s.write(1, reader.count)
			s.sealAndFlush()
			for row := range reader.rows {
				s.write(int64(2+row), reader.count)
			}
			standing, goOn, failed := make(chan int), make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(failed) })
			turns := 0
			var samples int
			var err error
			var reading sync.WaitGroup
			reading.Go(func() {
				defer close(standing)
				samples, err = reader.read(s.e, func() {
					if turns++; turns == 1 || turns == reader.second {
						select {
						case standing <- turns:
						case <-failed:
						}
						select {
						case <-goOn:
						case <-failed:
						}
					}
				})
			})
			row := int64(2 + reader.rows)
			for range standing {
				for range flushes {
					s.write(row, reader.count)
					s.sealAndFlush()
					row++
				}
				s.e.files.Sweeper.Wait()
				if n := len(s.e.pages.Generations()); n > 2 {
					t.Errorf("%d generations are kept", n)
				}
				goOn <- struct{}{}
			}
			reading.Wait()
			if err != nil || samples < reader.count || reader.name == "digest" && samples != reader.count || turns < reader.second {
				t.Errorf("%d samples, series or bytes in %d turns, %v", samples, turns, err)
			}
		})
	}
}

// countingWriter waits before it takes anything.
type countingWriter struct {
	wait  func()
	count int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.wait()
	w.count += min(len(p), math.MaxInt-w.count)
	return len(p), nil
}
