package codec

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
)

// TestBlockProperty packs columns of every kind, mixed scales, floats among
// decimals and extremes of time included.
func TestBlockProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := columnsOf(rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(r, "bytes"), 2000)
		if c.Len() > 0 {
			checkBlock(t, c)
		}
	})
}

// TestBlockMixed packs decimals with some values that no decimal page could hold.
func TestBlockMixed(t *testing.T) {
	random := newRandom(5)
	strange := []series.Number{
		series.FloatNumber(math.NaN()), series.FloatNumber(math.Inf(-1)), series.FloatNumber(math.Copysign(0, -1)),
		{Mantissa: 0x7ff0000000000001, Scale: series.ScaleFloat}, // a signalling NaN
		{Mantissa: -0x000fffffffffffff, Scale: series.ScaleFloat},
		{Mantissa: 1<<53 + 1, Scale: 0}, {Mantissa: math.MinInt64, Scale: 3}, {Mantissa: 7, Scale: 200},
		{Mantissa: 1 << 53, Scale: 15}, {Mantissa: 1, Scale: 15}, {Mantissa: -1 << 53, Scale: 0},
	}
	for _, share := range []int{1, 2, 5, 9, 50, 500} {
		c := shapes[0].make(BlockSamples, random)
		for i := range c.Times {
			if random.IntN(share) == 0 {
				n := strange[random.IntN(len(strange))]
				c.Mantissas[i], c.Scales[i] = n.Mantissa, n.Scale
			}
		}
		bytes := checkBlock(t, c)
		t.Logf("1 in %d strange: %.2f B/sample", share, float64(bytes)/BlockSamples)
	}
}

// TestBlockOutliers: counters that are reset and times with gaps stay small.
func TestBlockOutliers(t *testing.T) {
	random := newRandom(6)
	var c Columns
	timeMs, at := int64(shapeStartMs), int64(0)
	for range BlockSamples {
		timeMs += shapeIntervalMs
		at += 1_000_000 + random.Int64N(16)
		switch random.IntN(100) {
		case 0:
			at = 0
		case 1:
			timeMs += 3_600_000
		}
		c.Append(timeMs, series.Number{Mantissa: at})
	}
	bytes := float64(checkBlock(t, &c)) / BlockSamples
	t.Logf("%.3f B/sample", bytes)
	if bytes > 0.75 { // 4 bits a value, and a few bytes for each outlier
		t.Errorf("%.3f B/sample", bytes)
	}
}

// TestBlockSizes holds the sizes that the storage budget counts on: 0.735 bytes a
// sample over the four shapes, 0.695 when dense.
func TestBlockSizes(t *testing.T) {
	for _, c := range []struct {
		samples int
		dense   bool
		most    float64
	}{{BlockSamples, false, 0.735}, {BlockSamplesDense, true, 0.695}} {
		random := newRandom(8)
		e := BlockEncoder{Dense: c.dense}
		sum := 0
		for _, shape := range shapes[:4] {
			for range 8 {
				block, err := e.Append(nil, shape.make(c.samples, random))
				if err != nil {
					t.Fatal(err)
				}
				sum += len(block)
			}
		}
		mean := float64(sum) / float64(4*8*c.samples)
		t.Logf("%d samples: %.3f B/sample", c.samples, mean)
		if mean > c.most {
			t.Errorf("%.3f B/sample, want at most %.3f", mean, c.most)
		}
	}
}

func TestBlockSampleCounts(t *testing.T) {
	var e BlockEncoder
	for _, c := range []*Columns{{}, shapes[0].make(BlockSamplesMax+1, newRandom(1)), {Times: []int64{1}, Mantissas: []int64{1}}} {
		if out, err := e.Append([]byte("x"), c); !errors.Is(err, ErrSamples) || string(out) != "x" {
			t.Errorf("%d samples: %v", c.Len(), err)
		}
	}
}

// TestBlockCut: no part of a block passes for a block.
func TestBlockCut(t *testing.T) {
	var e BlockEncoder
	for _, shape := range shapes {
		block, err := e.Append(nil, shape.make(200, newRandom(2)))
		if err != nil {
			t.Fatal(err)
		}
		for n := range block {
			var r BlockReader
			err := r.Reset(block[:n])
			if err == nil {
				_, err = r.Values(nil, 0, r.Len())
			}
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: %d of %d bytes: %v", shape.name, n, len(block), err)
			}
		}
	}
}

func TestRescale(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		mantissa, scale, to := rapid.Int64().Draw(r, "mantissa"), rapid.Uint8().Draw(r, "scale"), rapid.Uint8().Draw(r, "to")
		if rapid.Bool().Draw(r, "decimal") {
			mantissa, scale, to = mantissa%1000_000*100, scale&15, to&15
		}
		if to > series.ScaleMax {
			to = series.ScaleFloat
		}
		got, ok := Rescale(mantissa, scale, to)
		if !ok {
			return
		}
		if want := series.Float64(mantissa, scale); math.Float64bits(series.Float64(got, to)) != math.Float64bits(want) {
			r.Fatalf("(%d, %d) at scale %d is %d", mantissa, scale, to, got)
		}
		if to <= series.ScaleMax && !decimalInBounds(got) {
			r.Fatalf("(%d, %d) at scale %d is %d: out of bounds", mantissa, scale, to, got)
		}
	})
}

// TestUnpack checks each kernel against the packing of its width.
func TestUnpack(t *testing.T) {
	random := newRandom(9)
	for width := range uint(65) {
		for _, n := range []int{1, 7, 8, 9, 64, 200} {
			values := make([]uint64, n)
			for i := range values {
				values[i] = random.Uint64() & (1<<width - 1)
			}
			packed := appendPacked([]byte{1, 2, 3}, values, width)
			if len(packed) != 3+packedBytes(n, width) {
				t.Fatalf("width %d: %d values in %d bytes", width, n, len(packed)-3)
			}
			got := make([]int64, (n+7)&^7)
			unpack(got, append(packed[3:], make([]byte, unpackSlack)...), width)
			for i, v := range values {
				if uint64(got[i]) != v {
					t.Fatalf("width %d, value %d of %d: %x, want %x", width, i, n, got[i], v)
				}
			}
		}
	}
}

func TestInterval(t *testing.T) {
	c := shapes[0].make(100, newRandom(1))
	var e BlockEncoder
	var r BlockReader
	for _, shift := range []int64{0, 1} {
		c.Times[50] += shift
		block, err := e.Append(nil, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Reset(block); err != nil {
			t.Fatal(err)
		}
		firstMs, intervalMs, ok := r.Interval()
		if ok != (shift == 0) || ok && (firstMs != shapeStartMs || intervalMs != shapeIntervalMs) {
			t.Errorf("shifted by %d: %d %d %v", shift, firstMs, intervalMs, ok)
		}
	}
}
