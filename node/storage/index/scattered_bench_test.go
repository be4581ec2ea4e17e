package index

import (
	"fmt"
	"testing"
)

// BenchmarkScatteredDays makes durable the marks of series that a clock run wild has scattered
// over 20,000 days: all at once, and then one more on each of a tenth of these days.
func BenchmarkScatteredDays(b *testing.B) {
	const days, few = 20_000, 100
	for _, count := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("series=%d", count), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				x := benchOpen(b, b.TempDir(), State{})
				createAll(b, x, count, benchFields, 2)
				if _, err := x.Sync(); err != nil {
					b.Fatal(err)
				}
				begin := func() {
					b.StartTimer()
					if _, err := x.Sync(); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
				}
				for day := range Day(days) {
					for n := range uint32(few) {
						x.MarkActive(day, (uint32(day)*7919+n*104729)%uint32(count))
					}
				}
				before := b.Elapsed()
				begin()
				b.ReportMetric((b.Elapsed() - before).Seconds(), "s/all")
				for day := Day(0); day < days; day += 10 {
					x.MarkActive(day, (uint32(day)*31)%uint32(count))
				}
				before = b.Elapsed()
				begin()
				b.ReportMetric((b.Elapsed() - before).Seconds(), "s/tenth")
				b.ReportMetric(float64(x.Stats().ActivityBytes)/(1<<20), "MiB/marks")
				if err := x.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
