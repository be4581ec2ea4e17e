package decimal

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// drawn returns a value, often a short decimal or one beside it.
func drawn(t *rapid.T) float64 {
	v := rapid.Float64().Draw(t, "value")
	if rapid.Bool().Draw(t, "short") {
		v = float64(rapid.Int64Range(-1e16, 1e16).Draw(t, "mantissa")) / math.Pow10(rapid.IntRange(0, 20).Draw(t, "places"))
	}
	if rapid.IntRange(0, 3).Draw(t, "beside") == 0 {
		v = math.Nextafter(v, math.Inf(1))
	}
	return v
}

// Numbers have the digits that strconv and encoding/json find for them.
func TestAppend(t *testing.T) {
	check := func(t rapid.TB, v float64) {
		form := byte('f')
		if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
			form = 'e'
		}
		if got, want := string(Append([]byte("x"), v)), "x"+strconv.FormatFloat(v, form, -1, 64); got != want {
			t.Errorf("Append: %s, want %s", got, want)
		}
		if got, want := string(AppendPlain([]byte("x"), v)), "x"+strconv.FormatFloat(v, 'f', -1, 64); got != want {
			t.Errorf("AppendPlain: %s, want %s", got, want)
		}
		want, err := json.Marshal(v)
		if err != nil {
			want = []byte("null")
		}
		if got := string(AppendJSON([]byte("x"), v)); got != "x"+string(want) {
			t.Errorf("AppendJSON: %s, want %s", got, want)
		}
	}
	for _, v := range []float64{
		0, math.Copysign(0, -1), 1, -1, 0.1, -0.000001, 0.0000011, 1e-7, -1e-10, 1e-100, 0.5, 123456.789, 1e15, 1e15 + 1, -1e15, 999999999999999,
		999999999.999999, 1e9 + 0.5, 1 << 53, 1e20, 1e21, 1e22, math.MaxFloat64, math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1), math.Inf(-1),
	} {
		check(t, v)
	}
	rapid.Check(t, func(t *rapid.T) { check(t, drawn(t)) })
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name string
		step float64
	}{{"Whole", 1}, {"Hundredths", 0.01}, {"Millionths", 1e-6}, {"Any", math.Pi}} {
		values := make([]float64, 1000)
		for i := range values {
			values[i] = math.Round(100*float64(i)/c.step) * c.step
			if c.step < 1 {
				values[i] = math.Round(17.3*float64(i)/c.step) / math.Round(1/c.step)
			}
		}
		b.Run(c.name, func(b *testing.B) {
			var text []byte
			for i := range b.N {
				text = Append(text[:0], values[i%len(values)])
			}
		})
	}
}
