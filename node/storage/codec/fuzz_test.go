package codec

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
)

// columnsOf makes columns of arbitrary bytes: a control byte says how the next
// time and value follow from the last, so that a fuzzer finds every code.
func columnsOf(b []byte, samplesMax int) *Columns {
	var c Columns
	timeMs, step, number := int64(0), int64(1), series.Number{}
	next := func(n int) (v int64) {
		var word [8]byte
		b = b[copy(word[:n], b):]
		shift := 64 - 8*n
		return int64(binary.LittleEndian.Uint64(word[:])<<shift) >> shift
	}
	for len(b) > 0 && c.Len() < samplesMax {
		control := b[0]
		b = b[1:]
		switch control & 7 {
		case 0, 1, 2:
			timeMs += step
		case 3:
			step += next(1)
			timeMs += step
		case 4:
			step = next(2)
			timeMs += step
		case 5:
			step = next(5)
			timeMs += step
		case 6:
			timeMs = next(8)
		}
		switch control >> 3 & 7 {
		case 1:
			number.Mantissa += next(1)
		case 2:
			number.Mantissa += next(2)
		case 3:
			number.Mantissa = next(4)
		case 4:
			number = series.Number{Mantissa: next(8), Scale: uint8(next(1))}
		case 5:
			number = series.FloatNumber(math.Float64frombits(uint64(next(8))))
		case 6:
			number.Scale = uint8(next(1))
		}
		repeat := 1
		if control>>6 == 3 && len(b) > 0 {
			repeat += int(b[0])
		}
		for ; repeat > 0 && c.Len() < samplesMax; repeat-- {
			c.Append(timeMs, number)
			if repeat > 1 {
				timeMs += step
			}
		}
	}
	return &c
}

func addColumnSeeds(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{0xc0 | 4, 0x10, 0x27, 1<<3 | 3, 1, 5, 2<<3 | 3, 0xff, 0xff, 0xff})
	f.Add([]byte{6 | 4<<3, 1, 2, 3, 4, 5, 6, 7, 0x80, 9, 9, 9, 9, 9, 9, 9, 9, 2, 5<<3 | 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f})
}

// FuzzPageRoundTrip checks that every accepted sample comes back, and that a
// refused one leaves the page alone.
func FuzzPageRoundTrip(f *testing.F) {
	addColumnSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 2 {
			return
		}
		size := PageBytesMin + int(b[0])%13*8
		c := columnsOf(b[1:], 2000)
		scale := c.Scales[0]
		var h PageHead
		var want Columns
		page := make([]byte, size)
		for i, timeMs := range c.Times {
			m, ok := Rescale(c.Mantissas[i], c.Scales[i], scale)
			if !ok {
				continue
			}
			wantBits := math.Float64bits(series.Float64(c.Mantissas[i], c.Scales[i]))
			if got := math.Float64bits(series.Float64(m, scale)); got != wantBits {
				t.Fatalf("(%d, %d) rescaled to %d is %x, want %x", c.Mantissas[i], c.Scales[i], scale, got, wantBits)
			}
			if want.Len() == 0 {
				h.Begin(page, timeMs, m, scale)
			} else {
				before, bytes := h, string(page)
				if !h.Append(page, timeMs, m) {
					if h != before || string(page) != bytes {
						t.Fatal("a refused sample changed the page")
					}
					continue
				}
			}
			want.Append(timeMs, series.FloatNumber(math.Float64frombits(wantBits)))
			if h.TimeMs != timeMs || math.Float64bits(h.Number().Float64()) != wantBits {
				t.Fatalf("head has %d %v", h.TimeMs, h.Number())
			}
		}
		if want.Len() > 0 {
			comparePage(t, h.AppendPayload(nil, page), &want)
		}
	})
}

func comparePage(t *testing.T, payload []byte, want *Columns) {
	var got Columns
	var points Points
	if err := DecodePage(payload, &got); err != nil {
		t.Fatal(err)
	}
	if err := DecodePagePoints(payload, &points); err != nil {
		t.Fatal(err)
	}
	if got.Len() != want.Len() || points.Len() != want.Len() || len(got.Scales) != want.Len() {
		t.Fatalf("%d samples, want %d", got.Len(), want.Len())
	}
	for i := range want.Times {
		bits := uint64(want.Mantissas[i])
		if got.Times[i] != want.Times[i] || points.Times[i] != want.Times[i] ||
			math.Float64bits(series.Float64(got.Mantissas[i], got.Scales[i])) != bits || math.Float64bits(points.Values[i]) != bits {
			t.Fatalf("sample %d is %d %x, want %d %x", i, got.Times[i], math.Float64bits(points.Values[i]), want.Times[i], bits)
		}
	}
}

// FuzzPageDecode checks that no bytes do harm, and that both decoders agree
// with the slow one.
func FuzzPageDecode(f *testing.F) {
	for _, shape := range shapes {
		c := shape.make(50, newRandom(3))
		for _, payload := range pagesOf(c, scaleOf(c)) {
			f.Add(payload)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		columns, points := Columns{Times: []int64{1}, Mantissas: []int64{1}, Scales: []uint8{1}}, Points{}
		err := DecodePage(payload, &columns)
		errPoints := DecodePagePoints(payload, &points)
		want, ok := oraclePage(payload)
		if (err == nil) != ok || (errPoints == nil) != ok {
			t.Fatal(err, errPoints, ok)
		}
		if err != nil {
			if !errors.Is(err, ErrCorrupt) || columns.Len() != 1 || points.Len() != 0 {
				t.Fatal(err, columns, points)
			}
			return
		}
		if n := columns.Len(); n-1 != points.Len() || n-1 > 8*PageBytesMax || len(columns.Scales) != n || len(columns.Mantissas) != n {
			t.Fatal(columns, points)
		}
		for i := range want.Times {
			if want.Times[i] != columns.Times[i+1] || want.Mantissas[i] != columns.Mantissas[i+1] || want.Scales[i] != columns.Scales[i+1] ||
				points.Times[i] != want.Times[i] || math.Float64bits(points.Values[i]) != math.Float64bits(series.Float64(want.Mantissas[i], want.Scales[i])) {
				t.Fatalf("sample %d: %v, want %v", i, columns, want)
			}
		}
	})
}

// FuzzBlockRoundTrip checks that all columns come back.
func FuzzBlockRoundTrip(f *testing.F) {
	addColumnSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		c := columnsOf(b, BlockSamplesMax)
		if c.Len() == 0 {
			return
		}
		checkBlock(t, c)
	})
}

// FuzzBlockDecode checks that no bytes do harm, and that Values and Numbers agree
// with the slow decoder.
func FuzzBlockDecode(f *testing.F) {
	for _, shape := range shapes {
		for _, dense := range []bool{false, true} {
			e := BlockEncoder{Dense: dense}
			payload, err := e.Append(nil, shape.make(300, newRandom(3)))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(payload)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var r BlockReader
		if err := r.Reset(payload); err != nil {
			if !errors.Is(err, ErrCorrupt) || r.Len() != 0 {
				t.Fatal(err)
			}
			return
		}
		times, err := r.Times(nil)
		if err == nil && len(times) != r.Len() || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err, len(times))
		}
		if firstMs, intervalMs, ok := r.Interval(); ok {
			for i := range r.Len() {
				if err != nil || times[i] != firstMs+int64(i)*intervalMs {
					t.Fatalf("time %d is not %d+%d·%d: %v", i, firstMs, i, intervalMs, err)
				}
			}
		}
		values, err := r.Values(nil, 0, r.Len())
		from, to := r.Len()/3, r.Len()-r.Len()/4
		part, errPart := r.Values(nil, from, to)
		if (err == nil) != (errPart == nil) || err == nil && !slices.Equal(asInts(part), asInts(values[from:to])) {
			t.Fatalf("values %d to %d differ from those of the whole: %v %v", from, to, err, errPart)
		}
		mantissas, scales, errNumbers := r.Numbers(nil, nil)
		if (err == nil) != (errNumbers == nil) || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err, errNumbers)
		}
		for i := range values {
			if math.Float64bits(values[i]) != math.Float64bits(series.Float64(mantissas[i], scales[i])) {
				t.Fatalf("value %d is %v and (%d, %d)", i, values[i], mantissas[i], scales[i])
			}
		}
		if len(times) == 0 || len(values) == 0 {
			return
		}
		slowTimes, slowValues := oracleBlock(payload)
		for i := range times {
			if times[i] != slowTimes[i] || math.Float64bits(values[i]) != math.Float64bits(slowValues[i]) {
				t.Fatalf("sample %d is %d %v, slowly %d %v", i, times[i], values[i], slowTimes[i], slowValues[i])
			}
		}
	})
}
