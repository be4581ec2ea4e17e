package scan

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
)

// TestDigest: parts add up, in any cut; a change of one bit of a time, a value or a key
// changes the digest.
func TestDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfNDistinct(rapid.Int64Range(TimeMsMin, TimeMsMax), 1, 20, rapid.ID[int64]).Draw(t, "times")
		values := make([]float64, len(times))
		for i := range values {
			values[i] = math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		}
		whole := DigestSamples(times, values)
		cut := rapid.IntRange(0, len(times)).Draw(t, "cut")
		if DigestSamples(times[:cut], values[:cut])+DigestSamples(times[cut:], values[cut:]) != whole {
			t.Fatal("parts do not add up")
		}
		at, bit := rapid.IntRange(0, len(times)-1).Draw(t, "at"), uint64(1)<<rapid.IntRange(0, 63).Draw(t, "bit")
		value, ms := values[at], times[at]
		values[at] = math.Float64frombits(math.Float64bits(value) ^ bit)
		if DigestSamples(times, values) == whole {
			t.Fatal("a changed value has the same digest")
		}
		values[at], times[at] = value, int64(uint64(ms)^bit)
		if DigestSamples(times, values) == whole {
			t.Fatal("a changed time has the same digest")
		}
		key := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "key")
		of := DigestSeries(key, whole)
		if part := rapid.Uint64().Draw(t, "part"); DigestSeries(key, part)+DigestSeries(key, whole-part) != of {
			t.Fatal("parts of a series do not add up")
		}
		other := append(series.Key{}, key...)
		other[rapid.IntRange(0, len(key)-1).Draw(t, "byte")]++
		if whole != 0 && DigestSeries(other, whole) == of || DigestSeries(key, whole^bit) == of {
			t.Fatal("a changed key or sum has the same digest")
		}
	})
}

func BenchmarkDigestSamples(b *testing.B) {
	times, values := make([]int64, 1000), make([]float64, 1000)
	for i := range times {
		times[i], values[i] = int64(1_700_000_000_000+10_000*i), float64(i%100)/10
	}
	b.ResetTimer()
	for range b.N {
		_ = DigestSamples(times, values)
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "samples/s")
}
