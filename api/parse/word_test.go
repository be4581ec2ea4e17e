package parse

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
)

// sameFloat checks a number against strconv's reading of its text.
func sameFloat(t interface{ Fatalf(string, ...any) }, text string, n series.Number) {
	want, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if got := n.Float64(); math.Float64bits(got) != math.Float64bits(want) {
		t.Fatalf("%q: got %v (%x), want %v", text, got, math.Float64bits(got), want)
	}
	if n.Scale != series.ScaleFloat && (n.Scale > series.ScaleMax || n.Mantissa > series.MantissaMax || n.Mantissa < -series.MantissaMax) {
		t.Fatalf("%q: %+v is outside the bounds of a Number", text, n)
	}
}

// TestDecimalAgainstStrconv compares the word-wise reading with the digits taken
// one by one, for all shapes of digits, point and what follows.
func TestDecimalAgainstStrconv(t *testing.T) {
	for whole := 0; whole <= 20; whole++ {
		for places := -1; places <= 18; places++ {
			for _, after := range []string{"", ",", " 17", "\n", "i", "e5", ".", "-", "\x00", "\xff", ":", "/"} {
				for _, digit := range []string{"1234567890", "9999999999", "0000000000", "9007199254"} {
					body := strings.Repeat(digit, 3)[:whole]
					if places >= 0 {
						body += "." + strings.Repeat(digit, 2)[:places]
					}
					checkDecimal(t, body, after)
				}
			}
		}
	}
}

func checkDecimal(t *testing.T, text, after string) {
	t.Helper()
	padded := []byte("x" + text + after + strings.Repeat("\x00", 24))
	m, scale, end, ok := decimal(padded, 1)
	if !ok {
		whole, fraction, point := strings.Cut(text, ".")
		easy := len(whole) > 0 && len(whole)+len(fraction) <= 15 && (!point || len(fraction) > 0)
		if easy && after != "." {
			t.Fatalf("%q then %q: not read", text, after)
		}
		return
	}
	if end != 1+len(text) {
		t.Fatalf("%q then %q: ends at %d", text, after, end)
	}
	sameFloat(t, text, series.Number{Mantissa: int64(m), Scale: scale})
}

func TestDecimalNearTheEnd(t *testing.T) {
	text := []byte("12345.678901 ")
	for n := 0; n <= len(text); n++ {
		m, scale, end, ok := decimal(text[:n:n], 0)
		if ok && (end >= n || m != 12345678901 || scale != 6) {
			t.Fatalf("%q: %d %d %d", text[:n], m, scale, end)
		}
	}
}

func TestWordMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "b")
		c := rapid.Byte().Draw(t, "c")
		limit := rapid.ByteRange(1, 128).Draw(t, "limit")
		x := load64(b, 0)
		wantBelow, wantEqual := 8, 8
		for i := 7; i >= 0; i-- {
			if b[i] < limit {
				wantBelow = i
			}
			if b[i] == c {
				wantEqual = i
			}
			digit := b[i] >= '0' && b[i] <= '9'
			if marked := notDigits(x^wordZeros)>>(8*i+7)&1 == 1; marked == digit {
				t.Fatalf("%x: byte %d marked %v", b, i, marked)
			}
		}
		if got := first(below(x, limit)); got != wantBelow {
			t.Fatalf("below(%x, %d) at %d, want %d", b, limit, got, wantBelow)
		}
		if got := first(equal(x, c)); got != wantEqual {
			t.Fatalf("equal(%x, %d) at %d, want %d", b, c, got, wantEqual)
		}
	})
}

func TestEightDigits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Uint64Range(0, 99999999).Draw(t, "n")
		text := strconv.FormatUint(want+100000000, 10)[1:]
		if got := eightDigits(load64([]byte(text), 0) ^ wordZeros); got != want {
			t.Fatalf("%s: %d", text, got)
		}
	})
}

func TestDigits19(t *testing.T) {
	for n := 0; n <= 24; n++ {
		text := strings.Repeat("9", n)
		got, digits := digits19([]byte(text+" "+strings.Repeat("7", 30)), 0)
		if n > 19 {
			if digits != 0 {
				t.Fatalf("%d digits read of %d", digits, n)
			}
			continue
		}
		want, _ := strconv.ParseUint("0"+text, 10, 64)
		if digits != n || got != want {
			t.Fatalf("%s: %d (%d digits)", text, got, digits)
		}
	}
}

func FuzzNumberOf(f *testing.F) {
	for _, s := range []string{"0", "-0", "-0.0", "1e5", ".5", "5.", "+1", "1e400", "9007199254740993", "0.1", "123456789.123456789", "1e-400", "-", ".", "e5", "0x1p3", "1_0", "NaN", "inf", "1e+", "00012.50"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := numberOf([]byte(s))
		_, wantErr := strconv.ParseFloat(s, 64)
		legal := strings.Trim(s, "0123456789+-.eE") == "" // no words, hexadecimal, underscores
		if (err == nil) != (wantErr == nil && legal) {
			t.Fatalf("%q: %v, strconv %v", s, err, wantErr)
		}
		if err == nil {
			sameFloat(t, s, n)
		}
	})
}
