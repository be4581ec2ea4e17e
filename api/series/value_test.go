package series

import (
	"math"
	"math/big"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestDecimalIsCorrectlyRounded compares a decimal's float64 with exact
// arithmetic and with strconv.
func TestDecimalIsCorrectlyRounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mantissa := rapid.Int64Range(-MantissaMax, MantissaMax).Draw(t, "mantissa")
		scale := rapid.Uint8Range(0, ScaleMax).Draw(t, "scale")
		got := Float64(mantissa, scale)
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
		want, _ := new(big.Rat).SetFrac(big.NewInt(mantissa), power).Float64()
		text, err := strconv.ParseFloat(strconv.FormatInt(mantissa, 10)+"e-"+strconv.Itoa(int(scale)), 64)
		if err != nil || got != want || got != text {
			t.Fatalf("%de-%d: got %v, want %v, %v", mantissa, scale, got, want, text)
		}
	})
}

func checkDecimalOf(t interface{ Fatalf(string, ...any) }, v float64, hint uint8) {
	n := DecimalOf(v, hint)
	if math.Float64bits(n.Float64()) != math.Float64bits(v) {
		t.Fatalf("%v (%x), hint %d: %+v is %v", v, math.Float64bits(v), hint, n, n.Float64())
	}
	special := math.IsNaN(v) || math.IsInf(v, 0) || v == 0 && math.Signbit(v)
	switch {
	case n.Scale == ScaleFloat:
		if n.Mantissa != int64(math.Float64bits(v)) {
			t.Fatalf("%v: %+v", v, n)
		}
	case special || n.Scale > ScaleMax || n.Mantissa > MantissaMax || n.Mantissa < -MantissaMax:
		t.Fatalf("%v: %+v is out of bounds", v, n)
	}
}

func TestDecimalOf(t *testing.T) {
	values := []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 20.15, 1e15, 1e16, 1 << 53, 1<<53 + 2, -(1 << 53), math.Pi, 1e-9, 1e-10, 5e-324,
		math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(), math.Float64frombits(0x7ff0000000000002), math.Float64frombits(0xfff8000000000001)}
	for _, v := range values {
		for hint := range 256 {
			checkDecimalOf(t, v, uint8(hint))
		}
	}
	for text, want := range map[string]Number{"20.15": {2015, 2}, "-0.5": {-5, 1}, "3": {3, 0}, "0.000000001": {1, 9}} {
		v, _ := strconv.ParseFloat(text, 64)
		if got := DecimalOf(v, ScaleFloat); got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		if rapid.Bool().Draw(t, "decimal") {
			v = Float64(rapid.Int64Range(-MantissaMax, MantissaMax).Draw(t, "mantissa"), rapid.Uint8Range(0, 9).Draw(t, "scale"))
		}
		checkDecimalOf(t, v, rapid.Uint8().Draw(t, "hint"))
	})
}

// TestShortDecimalsStayDecimals checks that what a sensor sends, a few digits,
// does not travel as bits.
func TestShortDecimalsStayDecimals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := Float64(rapid.Int64Range(-1e9, 1e9).Draw(t, "mantissa"), rapid.Uint8Range(0, 9).Draw(t, "scale"))
		if n := DecimalOf(v, ScaleFloat); n.Scale == ScaleFloat && v != 0 {
			t.Fatalf("%v travels as bits", v)
		}
	})
}

func FuzzDecimalOf(f *testing.F) {
	f.Add(uint64(0x4034266666666666), uint8(2))
	f.Add(uint64(0x7ff8000000000001), uint8(0))
	f.Fuzz(func(t *testing.T, bits uint64, hint uint8) { checkDecimalOf(t, math.Float64frombits(bits), hint) })
}
