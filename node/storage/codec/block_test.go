package codec

import (
	"fmt"
	"math"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
)

// checkBlock encodes and decodes columns in both densities and ways.
func checkBlock(t testing.TB, c *Columns) (bytes int) {
	t.Helper()
	for _, dense := range []bool{true, false} {
		e := BlockEncoder{Dense: dense}
		payload, err := e.Append([]byte("x"), c)
		if err != nil {
			t.Fatal(err)
		}
		var r BlockReader
		if err := r.Reset(payload[1:]); err != nil {
			t.Fatal(err)
		}
		bytes = len(payload) - 1
		times, err := r.Times([]int64{1})
		if err != nil {
			t.Fatal(err)
		}
		values, err := r.Values([]float64{1}, 0, r.Len())
		if err != nil {
			t.Fatal(err)
		}
		mantissas, scales, err := r.Numbers([]int64{1}, []uint8{1})
		if err != nil {
			t.Fatal(err)
		}
		if len(times) != c.Len()+1 || len(values) != c.Len()+1 || len(mantissas) != c.Len()+1 || len(scales) != c.Len()+1 || r.Len() != c.Len() {
			t.Fatalf("%d times, %d values, %d mantissas, %d scales, want %d", len(times), len(values), len(mantissas), len(scales), c.Len()+1)
		}
		slowTimes, slowValues := oracleBlock(payload[1:])
		checkPart(t, &r, slowValues)
		for i := range c.Times {
			if slowTimes[i] != times[i+1] || math.Float64bits(slowValues[i]) != math.Float64bits(values[i+1]) {
				t.Fatalf("dense %v, sample %d: %d %v, slowly %d %v", dense, i, times[i+1], values[i+1], slowTimes[i], slowValues[i])
			}
			want := math.Float64bits(series.Float64(c.Mantissas[i], c.Scales[i]))
			if times[i+1] != c.Times[i] || math.Float64bits(values[i+1]) != want ||
				math.Float64bits(series.Float64(mantissas[i+1], scales[i+1])) != want {
				t.Fatalf("dense %v, sample %d: %d %v (%d, %d), want %d %v", dense, i, times[i+1], values[i+1],
					mantissas[i+1], scales[i+1], c.Times[i], math.Float64frombits(want))
			}
		}
	}
	return bytes
}

// checkPart compares parts of a block's values with those of all.
func checkPart(t testing.TB, r *BlockReader, all []float64) {
	t.Helper()
	n := len(all)
	for _, part := range [][2]int{{0, 0}, {0, 1}, {n - 1, n}, {n / 3, n/3 + n/2}, {n / 2, n / 2}, {min(1, n), n}, {0, n * 2 / 3}} {
		values, err := r.Values([]float64{1}, part[0], part[1])
		if err != nil || len(values) != 1+part[1]-part[0] {
			t.Fatalf("values %d to %d: %d, %v", part[0], part[1], len(values)-1, err)
		}
		for i, v := range values[1:] {
			if math.Float64bits(v) != math.Float64bits(all[part[0]+i]) {
				t.Fatalf("value %d of %d to %d is %v, slowly %v", i, part[0], part[1], v, all[part[0]+i])
			}
		}
	}
}

func TestBlockShapes(t *testing.T) {
	for _, shape := range shapes {
		for _, n := range []int{1, 2, 3, 4, 7, 8, 9, 127, 128, 129, 1000, BlockSamples, 1025, BlockSamplesMax} {
			c := shape.make(n, newRandom(uint64(n)))
			bytes := checkBlock(t, c)
			if n >= BlockSamples {
				t.Logf("%s %d: %.3f B/sample", shape.name, n, float64(bytes)/float64(n))
			}
		}
	}
}

func BenchmarkBlockEncode(b *testing.B) { benchmarkBlocks(b, false) }
func BenchmarkBlockDecode(b *testing.B) { benchmarkBlocks(b, true) }

func benchmarkBlocks(b *testing.B, decode bool) {
	for _, c := range []struct {
		samples int
		dense   bool
	}{{BlockSamples, false}, {BlockSamples, true}, {BlockSamplesDense, true}} {
		n := c.samples
		for _, shape := range shapes {
			b.Run(fmt.Sprintf("%s/%d/dense=%v", shape.name, n, c.dense), func(b *testing.B) {
				const blocks = 8
				e := BlockEncoder{Dense: c.dense}
				random := newRandom(1)
				var columns [blocks]*Columns
				var payloads [blocks][]byte
				bytes := 0
				for i := range columns {
					columns[i] = shape.make(n, random)
					payloads[i], _ = e.Append(nil, columns[i])
					bytes += len(payloads[i])
				}
				var r BlockReader
				var p Points
				var out []byte
				samples := 0
				for b.Loop() {
					for i := range columns {
						if decode {
							p.Reset()
							var errs [3]error
							errs[0] = r.Reset(payloads[i])
							p.Times, errs[1] = r.Times(p.Times)
							p.Values, errs[2] = r.Values(p.Values, 0, r.Len())
							if errs != [3]error{} {
								b.Fatal(errs)
							}
						} else {
							out, _ = e.Append(out[:0], columns[i])
						}
						samples += n
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
				b.ReportMetric(float64(bytes)/float64(blocks*n), "B/sample")
			})
		}
	}
}
