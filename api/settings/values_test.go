package settings

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/quantity"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "65536": 65536, "1B": 1, "64KiB": 64 << 10, "1.5GiB": 3 << 29, "200MB": 200e6, "1kB": 1000, "1KB": 1000,
		"2 TiB": 2 << 40, "3TB": 3e12, "4611686018427387904": 1 << 62, "9007199254740993": 1<<53 + 1, "0.5KiB": 512,
	} {
		var b Bytes
		if err := b.Set(text); err != nil || int64(b) != want {
			t.Errorf("%q: %d, %v; want %d", text, b, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "B", "KiB", "-1", "-1KiB", "+1KiB", "1e3", "0x10", "1_000", "Inf", "NaN", "NaNKiB", "1.2.3", ".", "1KiBKiB", "1 K",
		"4611686018427387905", "9223372036854775808", "8388608TiB", "64kib",
	} {
		b := Bytes(7)
		if err := b.Set(text); err == nil || b != 7 {
			t.Errorf("%q: is taken as %d", text, b)
		}
	}
}

func TestSpan(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0d": 0, "90d": 90 * day, "2w": 14 * day, "1y": 365 * day, "36h": 36 * time.Hour, "1h30m": 90 * time.Minute,
		"100000d": 100_000 * day, "250ms": 250 * time.Millisecond, "1.5h": 90 * time.Minute,
	} {
		var s Duration
		if err := s.Set(text); err != nil || time.Duration(s) != want {
			t.Errorf("%q: %v, %v; want %v", text, time.Duration(s), err, want)
		}
	}
	for _, text := range []string{"", "90", "d", "-1d", "+1d", "1.5d", "1d12h", "100001d", "274y", "-1h", "1 d", "9223372037s", "18446744073709551615d"} {
		s := Duration(7)
		if err := s.Set(text); err == nil || s != 7 {
			t.Errorf("%q: is taken as %v", text, time.Duration(s))
		}
	}
}

func TestSpanText(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0": 0, "90d": 90 * 24 * time.Hour, "36h": 36 * time.Hour, "1h30m": 90 * time.Minute, "5m": 5 * time.Minute, "1h0m5s": time.Hour + 5*time.Second,
		"1m30s": 90 * time.Second, "1s": time.Second, "10m": 10 * time.Minute, "20h": 20 * time.Hour, "100ms": 100 * time.Millisecond,
	} {
		if s := Duration(d); s.String() != want {
			t.Errorf("%v: %s, want %s", d, s.String(), want)
		}
	}
}

func TestCount(t *testing.T) {
	var c Count
	if err := c.Set("9223372036854775807"); err != nil || c != math.MaxInt64 {
		t.Error(c, err)
	}
	for _, text := range []string{"", "-1", "+1", "x", "1.0", "1e3", "0x10", "9223372036854775808"} {
		if err := c.Set(text); err == nil {
			t.Errorf("%q: is taken as %d", text, c)
		}
	}
}

func TestAddress(t *testing.T) {
	for _, text := range []string{"", ":0", ":6182", "localhost:80", "127.0.0.1:65535", "[::1]:6182", "[fe80::1%eth0]:1"} {
		var a Address
		if err := a.Set(text); err != nil || string(a) != text {
			t.Errorf("%q: %q, %v", text, a, err)
		}
	}
	for _, text := range []string{"6182", "localhost", ":", ":http", ":65536", ":-1", "::1:80", "[::1]", "a:b:c", "http://localhost:80"} {
		a := Address("before")
		if err := a.Set(text); err == nil || a != "before" {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestValuesKeepTheirText sets what String returns: nothing may change, as --help
// shows defaults in this form.
func TestValuesKeepTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bytes(rapid.Int64Range(0, BytesMax).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "round") {
			b = b >> 30 << 30
		}
		s := Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "ns"))
		if unit := rapid.SampledFrom([]time.Duration{1, time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "unit"); unit > 1 {
			s = Duration(time.Duration(s).Truncate(unit))
		}
		if time.Duration(s) > quantity.SpanDaysMax*24*time.Hour {
			s = 0
		}
		c := Count(rapid.Int64Range(0, math.MaxInt64).Draw(t, "count"))
		for _, pair := range [][2]pflag.Value{{&b, new(Bytes)}, {&s, new(Duration)}, {&c, new(Count)}} {
			if err := pair[1].Set(pair[0].String()); err != nil || pair[1].String() != pair[0].String() {
				t.Fatalf("%s %q became %q: %v", pair[0].Type(), pair[0], pair[1], err)
			}
		}
		var again Bytes
		if err := again.Set(b.String()); err != nil || again != b {
			t.Fatalf("%d became %d: %v", b, again, err)
		}
	})
}

// FuzzByteSize compares with exact arithmetic. A size with a fraction may be off
// by what a float64 rounds.
func FuzzByteSize(f *testing.F) {
	for _, seed := range []string{"64KiB", "1.5GB", "65536", "4611686018427387904", "0.1TiB", "-1", "1e9", ".5B"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var b Bytes
		if b.Set(text) != nil {
			return
		}
		if b < 0 || b > BytesMax {
			t.Fatalf("%q: %d", text, b)
		}
		number := strings.TrimSpace(strings.TrimRight(text, "kKMGTiB"))
		exact, ok := new(big.Rat).SetString(number)
		if !ok {
			t.Fatalf("%q is taken as %d", text, b)
		}
		unit := map[string]int64{
			"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		}[text[len(strings.TrimRight(text, "kKMGTiB")):]]
		exact.Mul(exact, new(big.Rat).SetInt64(unit))
		want, _ := exact.Float64()
		if math.Abs(float64(b)-want) > 1+want*1e-15 {
			t.Fatalf("%q: %d, want %g", text, b, want)
		}
	})
}
