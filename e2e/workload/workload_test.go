package workload

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNumberTextIsItsFloat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Number{Units: rapid.Int64Range(-1e12, 1e12).Draw(t, "units"), Decimals: rapid.SampledFrom([]uint8{0, 2}).Draw(t, "decimals")}
		parsed, err := strconv.ParseFloat(string(n.Append(nil)), 64)
		if err != nil || parsed != n.Float() {
			t.Fatalf("%+v is written %q, which is %v (%v), and Float gives %v", n, n.Append(nil), parsed, err, n.Float())
		}
	})
}

func TestDevicesAreFunctionsOfSeedAndNumber(t *testing.T) {
	a, b, other := NewDevice(1, 7, false), NewDevice(1, 7, false), NewDevice(1, 8, false)
	differs := false
	for range 1000 {
		x, y, z := *a.Next(), *b.Next(), *other.Next()
		if x != y {
			t.Fatal("the same device gives different rows")
		}
		differs = differs || x != z
	}
	if !differs {
		t.Fatal("two devices give the same rows")
	}
}

// The oracle formats each row with fmt and the wanted time.
func TestBodyAgainstFmt(t *testing.T) {
	for _, form := range []Form{Line, Put} {
		var body Body
		var want strings.Builder
		const first = 1_700_000_000
		device := NewDevice(3, 12, false)
		for row := range 50 {
			values := device.Next()
			body.AppendRow(form, 12, row, values)
			if form == Line {
				fmt.Fprintf(&want, "m,device=d_12 ")
				for sensor, n := range values {
					comma := ","
					if sensor == SensorCount-1 {
						comma = ""
					}
					fmt.Fprintf(&want, "s_%d=%s%s", sensor, text(n), comma)
				}
				fmt.Fprintf(&want, " %d\n", first+row)
				continue
			}
			for sensor, n := range values {
				fmt.Fprintf(&want, "put m %d %s device=d_12 sensor=s_%d\n", first+row, text(n), sensor)
			}
		}
		body.SetTime(5)
		body.Prepend([]byte("header"))
		body.SetTime(first)
		if !bytes.Equal(body.Text, []byte("header"+want.String())) {
			t.Fatalf("%s: got\n%.300s\nwant\n%.300s", form, body.Text, want.String())
		}
		if body.Points != 500 {
			t.Fatalf("%s: %d points", form, body.Points)
		}
	}
}

func text(n Number) string {
	if n.Decimals == 0 {
		return strconv.FormatInt(n.Units, 10)
	}
	return strconv.FormatFloat(n.Float(), 'f', 2, 64)
}

func BenchmarkRow(b *testing.B) {
	device := NewDevice(1, 1, false)
	var body Body
	for b.Loop() {
		body.Reset()
		for row := range 20 {
			body.AppendRow(Line, 1, row, device.Next())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/200, "ns/point")
}
