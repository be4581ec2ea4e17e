package quantity

import (
	"math/big"
	"testing"
	"time"
)

func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "65536": 65536, "1B": 1, "64KiB": 64 << 10, "1.5GiB": 3 << 29, "200MB": 200e6, "2 TiB": 2 << 40,
		"4611686018427387904": 1 << 62, "9007199254740993": 1<<53 + 1,
	} {
		if got, err := Bytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "-1", "+1", "+1KiB", "1e3", "0x10", "1_000", "Inf", "1.2.3", "4611686018427387905", "64kib"} {
		if got, err := Bytes(text); err == nil {
			t.Errorf("%q: is taken as %d", text, got)
		}
	}
}

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0d": 0, "90d": 90 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "1y": 365 * 24 * time.Hour, "1m30s": 90 * time.Second,
	} {
		if got, err := Span(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "90", "d", "-1d", "+1d", "1.5d", "100001d", "274y", "-1h", "18446744073709551615d"} {
		if got, err := Span(text); err == nil {
			t.Errorf("%q: is taken as %v", text, got)
		}
	}
}

// What is taken is what exact arithmetic says, cut to whole bytes.
func FuzzBytes(f *testing.F) {
	for _, text := range []string{"0", "1.5KiB", "200MB", "9223372036854775807", "3.1415926 GiB", "1TB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Bytes(text)
		if err != nil {
			return
		}
		if got < 0 || got > BytesMax {
			t.Fatalf("%q: %d is out of range", text, got)
		}
		number, unit := text, big.NewRat(1, 1)
		for _, u := range Units() {
			if n := len(text) - len(u.Suffix); n >= 0 && text[n:] == u.Suffix {
				number, unit = text[:n], new(big.Rat).SetFloat64(u.Bytes)
				break
			}
		}
		for len(number) > 0 && (number[len(number)-1] == ' ' || number[len(number)-1] == '\t') {
			number = number[:len(number)-1]
		}
		exact, ok := new(big.Rat).SetString(number)
		if !ok {
			return // other spaces around it
		}
		want, _ := exact.Mul(exact, unit).Float64()
		if difference := float64(got) - want; difference > 1+want*1e-15 || difference < -1-want*1e-15 {
			t.Fatalf("%q: %d, want %v", text, got, want)
		}
	})
}

func FuzzSpan(f *testing.F) {
	for _, text := range []string{"0", "90d", "1h30m", "2w", "-1s", "1y"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := Span(text); err == nil && d < 0 {
			t.Fatalf("%q: %v", text, d)
		}
	})
}
