package exactsum

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// exact is the sum by math/big, with more bits than there are between the greatest and the least float64. It
// returns the mean too, of the rounded sum.
func exact(values []float64) (sum, mean float64) {
	total := new(big.Float).SetPrec(2300)
	infinities, allNegativeZero := map[bool]bool{}, len(values) > 0
	for _, v := range values {
		switch allNegativeZero = allNegativeZero && v == 0 && math.Signbit(v); {
		case math.IsNaN(v):
			return math.NaN(), math.NaN()
		case math.IsInf(v, 0):
			infinities[v > 0] = true
		default:
			total.Add(total, new(big.Float).SetFloat64(v))
		}
	}
	n := float64(len(values))
	switch {
	case len(infinities) == 2:
		return math.NaN(), math.NaN()
	case len(values) == 0:
		return math.Copysign(0, -1), math.NaN()
	case len(infinities) == 1:
		sum = math.Inf(map[bool]int{true: 1, false: -1}[infinities[true]])
		return sum, sum / n
	case allNegativeZero:
		return math.Copysign(0, -1), math.Copysign(0, -1)
	case total.Sign() == 0:
		return 0, 0 / n
	}
	sum, _ = total.Float64()
	if mean = sum / n; math.IsInf(sum, 0) {
		rounded := new(big.Float).SetPrec(53).Set(total) // with exponents that float64 does not have
		mean, _ = rounded.Quo(rounded, big.NewFloat(n)).Float64()
	}
	return sum, mean
}

func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

func sumOf(values []float64) *Sum {
	s := &Sum{}
	for _, v := range values {
		s.Add(v)
	}
	return s
}

// check compares the sum of values, in their order and another, as a whole and in parts, with the oracle's.
func check(t interface {
	Helper()
	Fatalf(string, ...any)
}, values []float64, cut int) {
	t.Helper()
	sum, mean := exact(values)
	whole := sumOf(values)
	parts := sumOf(values[cut:])
	left := sumOf(values[:cut])
	parts.Merge(left)
	mirrored := sumOf(values[:cut])
	for i := len(values) - 1; i >= cut; i-- {
		mirrored.Add(values[i])
	}
	var decoded Sum
	text := whole.Append([]byte("before"))[6:]
	if rest, err := decoded.Decode(append(bytes.Clone(text), "after"...)); err != nil || string(rest) != "after" || len(text) > EncodedBytesMax {
		t.Fatalf("%x of %v: %q behind, %v", text, values, rest, err)
	}
	atOnce := sumOf(values[:cut])
	if grown := atOnce.AddAll(values[cut:]); grown != atOnce.Bytes()-sumOf(values[:cut]).Bytes() {
		t.Fatalf("%v: a sum has grown by %d bytes and takes %d", values, grown, atOnce.Bytes())
	}
	for name, s := range map[string]*Sum{"at once": atOnce, "whole": whole, "in parts": parts, "in another order": mirrored, "decoded": &decoded} {
		if got := s.Value(); !same(got, sum) {
			t.Fatalf("%v, %s: the sum is %v (%x), want %v (%x)", values, name, got, math.Float64bits(got), sum, math.Float64bits(sum))
		}
		if n := int64(len(values)); n > 0 {
			if got := s.Mean(n); !same(got, mean) {
				t.Fatalf("%v, %s: the mean is %v, want %v", values, name, got, mean)
			}
		}
		if other := s.Append(nil); !bytes.Equal(other, text) {
			t.Fatalf("%v, %s: encoded as %x, want %x", values, name, other, text)
		}
	}
}

// anyFloat draws values of all kinds: by their bits, of near and of far exponents, with few and with many bits.
func anyFloat() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Map(rapid.Uint64(), math.Float64frombits),
		rapid.Float64Range(-1e6, 1e6),
		rapid.Map(rapid.IntRange(-10_000, 10_000), func(n int) float64 { return float64(n) / 100 }),
		rapid.Custom(func(t *rapid.T) float64 {
			m := rapid.SampledFrom([]float64{1, -1, 1 + 0x1p-52, -2 + 0x1p-52, 1.5}).Draw(t, "mantissa")
			return math.Ldexp(m, rapid.IntRange(-1080, 1023).Draw(t, "exponent"))
		}),
		rapid.SampledFrom([]float64{
			0, math.Copysign(0, -1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64,
			0x1p-1022, 0x1p-62, 0x1p66, -0x1p66, 0x1p53, 1, -1, 0x1p-53, 0x1p970,
		}),
	)
}

// TestExact: sums and means are those of math/big, whatever the order and however values were spread.
func TestExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(anyFloat(), 0, 60).Draw(t, "values")
		finite := rapid.Bool().Draw(t, "finite")
		for i, v := range values {
			if finite && (math.IsNaN(v) || math.IsInf(v, 0)) {
				values[i] = 1
			}
		}
		check(t, values, rapid.IntRange(0, len(values)).Draw(t, "cut"))
	})
}

// TestByHand has cases that other ways of adding get wrong, and all that is special.
func TestByHand(t *testing.T) {
	inf, largest, zero := math.Inf(1), math.MaxFloat64, math.Copysign(0, -1)
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, zero},
		{[]float64{zero, zero}, zero},
		{[]float64{zero, 0}, 0},
		{[]float64{1.5, -1.5}, 0},
		{[]float64{zero, 0x1p-70, -0x1p-70}, 0},
		{[]float64{0.1, 0.2, -0.3}, 0x1p-55}, // the three are no tenths
		{[]float64{1e308, 1e308, -1e308}, 1e308},
		{[]float64{largest, largest}, inf},
		{[]float64{-largest, -largest}, -inf},
		{[]float64{largest, 0x1p969}, largest}, // less than half of a last bit
		{[]float64{largest, 0x1p970}, inf},     // half of it: to even is beyond
		{[]float64{largest, 0x1p970, -5e-324}, largest},
		{[]float64{1, 0x1p-53}, 1},
		{[]float64{1 + 0x1p-52, 0x1p-53}, 1 + 0x1p-51},
		{[]float64{1, 0x1p-53, 5e-324}, 1 + 0x1p-52},
		{[]float64{1e100, 1, -1e100}, 1},
		{[]float64{inf, 1, inf}, inf},
		{[]float64{inf, -largest, -inf}, math.NaN()},
		{[]float64{math.NaN(), inf}, math.NaN()},
		{[]float64{0x1p-1022, -0x1p-1074}, 0x1p-1022 - 0x1p-1074}, // subnormal
	} {
		if got := sumOf(c.values).Value(); !same(got, c.want) {
			t.Errorf("the sum of %v is %v, want %v", c.values, got, c.want)
		}
		check(t, c.values, len(c.values)/2)
	}
}

// TestMany: carries and signs come right in sums of very many values.
func TestMany(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, scale := range []float64{1, 0x1p65, 0x1p-62, 0x1p-300, 0x1p1023} {
		values := make([]float64, 20_000)
		for i := range values {
			values[i] = (random.Float64() - 0.5) * scale
			if i >= 10_000 {
				values[i] = scale * (1 + float64(i)*0x1p-52) // of one sign
			}
		}
		check(t, values, 7000)
	}
}

// TestSize: sums of usual values are small, and what a sum grows by is told.
func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(Sum{}); size > 24 {
		t.Errorf("a sum takes %d bytes", size)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"decimals":      func() float64 { return float64(random.IntN(10_000_000)) / 1000 },
		"counters":      func() float64 { return float64(random.Uint64() >> 11) },
		"rates":         func() float64 { return random.Float64() * 1e6 },
		"signs":         random.NormFloat64,
		"tiny ones":     func() float64 { return random.Float64() * 1e-9 },
		"bytes and 0.1": func() float64 { return float64(random.IntN(2))*1e9 + 0.1 },
	} {
		var s Sum
		for range 100_000 {
			if grown := s.Add(draw()); grown != 0 {
				t.Errorf("a sum of %s has grown by %d bytes", name, grown)
				break
			}
		}
	}
	var s, other Sum
	for i, v := range []float64{1, 1e300, 1e-300, 1e10} {
		want := 0
		if i == 2 {
			want = LargeBytes
		}
		if grown := s.Add(v); grown != want {
			t.Errorf("a sum has grown by %d bytes for %v", grown, v)
		}
	}
	if grown := other.Merge(&s); grown != LargeBytes {
		t.Errorf("a sum of a large one has grown by %d bytes", grown)
	}
	if other.large == s.large {
		t.Error("two sums share a large form")
	}
}

// TestDecodeRefuses: what Append does not make is no sum.
func TestDecodeRefuses(t *testing.T) {
	whole := sumOf([]float64{1e300, 1e-300, 1}).Append(nil)
	changed := func(change func(b []byte) []byte) []byte { return change(bytes.Clone(whole)) }
	for name, text := range map[string][]byte{
		"nothing":                  nil,
		"no form":                  {0, 0, 0, 0, 0, 0, 0, 0, 0},
		"another form":             {4, 0, 0, 0, 0, 0, 0, 0, 0},
		"half a number":            {formOne, 0, 0},
		"one number of two":        appendNumbers(nil, 1, 1e-20)[:numberBytes+1],
		"a rest that is one of it": appendNumbers(nil, 1, 1),
		"a rest of infinity":       appendNumbers(nil, math.Inf(1), 1),
		"a rest of infinities":     appendNumbers(nil, 1, math.Inf(1)),
		"another NaN":              appendNumbers(nil, math.Float64frombits(0x7ff0000000000002), 0),
		"no bytes":                 {formLarge, 0, 0, 0, 0},
		"fewer bytes":              whole[:len(whole)-1],
		"half a header":            whole[:4],
		"zeros below":              changed(func(b []byte) []byte { b[largeHeader] = 0; return b }),
		"zeros above":              changed(func(b []byte) []byte { b[3]++; return append(b, 0) }),
		"too high":                 changed(func(b []byte) []byte { b[1], b[2] = 255, 0; return b }),
		"what two have room for":   {formLarge, 100, 0, 1, 0, 1},
	} {
		if _, err := new(Sum).Decode(text); !errors.Is(err, ErrEncoding) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDecode: what is taken comes back as it was, and can be added and rounded.
func FuzzDecode(f *testing.F) {
	for _, values := range [][]float64{nil, {1}, {-1, 0.1}, {1e300, -1e-300}, {-1e300, 1e-300, 1}, {1, 1e-20}, {math.MaxFloat64, math.MaxFloat64}, {math.NaN(), math.Inf(-1)}, {math.Copysign(0, -1)}, {0x1p-62, 0x1p65}} {
		f.Add(sumOf(values).Append(nil))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s Sum
		rest, err := s.Decode(text)
		if err != nil {
			if !errors.Is(err, ErrEncoding) {
				t.Fatal(err)
			}
			return
		}
		taken := text[:len(text)-len(rest)]
		if again := s.Append(nil); !bytes.Equal(again, taken) {
			t.Fatalf("%x came back as %x", taken, again)
		}
		twice, doubled := s, s.Value()*2
		if s.large != nil {
			words := *s.large
			twice.large = &words
		}
		twice.Merge(&s)
		if got := twice.Value(); !same(got, doubled) && math.Abs(doubled) >= 0x1p-1021 {
			t.Fatalf("twice %x is %v, want %v", taken, got, doubled)
		}
		s.Mean(3)
	})
}

func BenchmarkAdd(b *testing.B) {
	values := make([]float64, 1000)
	random := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"gauges":   func() float64 { return math.Round(random.Float64()*10_000) / 100 },
		"counters": func() float64 { return float64(random.Uint32()) },
		"signs":    func() float64 { return random.NormFloat64() },
		"far":      func() float64 { return math.Ldexp(random.NormFloat64(), random.IntN(600)-300) },
	} {
		for i := range values {
			values[i] = draw()
		}
		b.Run(name, func(b *testing.B) {
			var s Sum
			for i := 0; b.Loop(); i++ {
				s.Add(values[i%len(values)])
			}
		})
	}
}

func BenchmarkValue(b *testing.B) {
	s := sumOf([]float64{1.25, 1e9, -0.1})
	for b.Loop() {
		s.Value()
	}
}

func BenchmarkMerge(b *testing.B) {
	s, other := sumOf([]float64{1.25, 1e9, -0.1}), sumOf([]float64{7.3})
	for b.Loop() {
		s.Merge(other)
	}
}
