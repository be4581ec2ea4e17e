package opentsdb

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestFloats: numbers have the digits that strconv finds for them.
func TestFloats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64().Draw(t, "value")
		if rapid.Bool().Draw(t, "short") {
			v = float64(rapid.Int64Range(-1e15, 1e15).Draw(t, "mantissa")) / math.Pow10(rapid.IntRange(0, 9).Draw(t, "places"))
		}
		if rapid.IntRange(0, 3).Draw(t, "beside") == 0 {
			v = math.Nextafter(v, math.Inf(1))
		}
		if math.IsInf(v, 0) {
			return
		}
		got := string(appendFloat(nil, v, false))
		if want := strconv.FormatFloat(v, 'f', -1, 64); got != want && got != strconv.FormatFloat(v, 'e', -1, 64) {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}
