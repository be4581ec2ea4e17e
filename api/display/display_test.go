package display

import (
	"math"
	"testing"
	"time"
)

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536 << 20: "1.5 GiB", 1 << 63: "8.0 EiB", math.MaxUint64: "16.0 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestTime(t *testing.T) {
	for ms, want := range map[uint64]string{
		0: "0s", 1234: "1.2s", 1500: "1.5s", 125_400: "2m5s", 1 << 63: ((1 << 43) * time.Millisecond).Round(time.Second).String(),
	} {
		if got := Time(ms); got != want {
			t.Errorf("%d ms: %s, want %s", ms, got, want)
		}
	}
	_ = Time(math.MaxUint64)
}
