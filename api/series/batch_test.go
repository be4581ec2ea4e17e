package series

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type batchPoint struct {
	Ref      uint32
	TimeMs   int64
	Mantissa int64
	Scale    uint8
}

// drawPoints makes columns as writers send them, with steps and runs, and as
// nobody does.
func drawPoints(t *rapid.T) []batchPoint {
	var p batchPoint
	var start uint32
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) batchPoint {
		switch rapid.IntRange(0, 5).Draw(t, "ref") {
		case 0, 1:
			p.Ref++
		case 2:
			p.Ref = start
		case 3:
			p.Ref = rapid.Uint32().Draw(t, "id")
			start = p.Ref
		}
		switch rapid.IntRange(0, 5).Draw(t, "time") {
		case 0, 1:
			p.TimeMs += 10_000
		case 2:
			p.TimeMs = rapid.Int64().Draw(t, "ms")
		case 3:
			p.TimeMs = rapid.Int64Range(0, 2e12).Draw(t, "ms")
		}
		switch rapid.IntRange(0, 3).Draw(t, "value") {
		case 0:
			p.Scale, p.Mantissa = ScaleFloat, rapid.Int64().Draw(t, "bits")
		case 1:
			p.Scale = rapid.Uint8Range(0, ScaleMax).Draw(t, "scale")
			p.Mantissa = rapid.Int64Range(-MantissaMax, MantissaMax).Draw(t, "mantissa")
		case 2:
			p.Scale, p.Mantissa = 2, int64(rapid.Int16().Draw(t, "short"))
		}
		return p
	}), 0, 200).Draw(t, "points")
}

func encode(e *BatchEncoder, keys []Key, points []batchPoint) []byte {
	for i, k := range keys {
		if ref := e.Define(k); ref != SlotBase+ID(i) {
			panic("a definition has a wrong reference")
		}
	}
	for _, p := range points {
		e.Append(ID(p.Ref), p.TimeMs, p.Mantissa, p.Scale)
	}
	return e.AppendTo([]byte("front"))[5:]
}

func decode(b []byte) (keys []Key, points []batchPoint, err error) {
	var r BatchReader
	r.Reset(b)
	for k, ok := r.NextDefinition(); ok; k, ok = r.NextDefinition() {
		keys = append(keys, k)
	}
	count := r.Points()
	for r.NextPoint() {
		points = append(points, batchPoint{r.Ref, r.TimeMs, r.Mantissa, r.Scale})
	}
	if r.Err() == nil && count != len(points) {
		return nil, nil, errors.New("Points is not the number of points")
	}
	return keys, points, r.Err()
}

func TestBatchRoundTrip(t *testing.T) {
	var reused BatchEncoder
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) Key { return b }), 0, 4).Draw(t, "keys")
		points := drawPoints(t)
		reused.Reset()
		b := encode(&reused, keys, points)
		if len(b) > reused.SizeMax() || reused.Points() != len(points) {
			t.Fatalf("%d bytes of at most %d, %d points", len(b), reused.SizeMax(), reused.Points())
		}
		var fresh BatchEncoder
		if !bytes.Equal(b, encode(&fresh, keys, points)) {
			t.Fatal("a reused encoder writes other bytes")
		}
		gotKeys, gotPoints, err := decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(gotKeys, keys, func(a, b Key) bool { return bytes.Equal(a, b) }) || !slices.Equal(gotPoints, points) {
			t.Fatalf("got %v %v, want %v %v", gotKeys, gotPoints, keys, points)
		}
		for cut := range b { // every shorter batch is refused
			if _, _, err := decode(b[:cut:cut]); !errors.Is(err, ErrBatch) {
				t.Fatalf("cut at %d of %d: %v", cut, len(b), err)
			}
		}
		if _, _, err := decode(append(slices.Clone(b), 0)); !errors.Is(err, ErrBatch) {
			t.Fatalf("one byte more: %v", err)
		}
	})
}

// TestBatchFormat holds one batch to its bytes: the format is durable.
func TestBatchFormat(t *testing.T) {
	var e BatchEncoder
	b := encode(&e, []Key{{0, 1, 'm'}}, []batchPoint{
		{uint32(SlotBase), 1000, 1250, 2}, // explicit reference and time, scale
		{uint32(SlotBase) + 1, 1000, -1, 2},
		{uint32(SlotBase), 2000, 1, 2}, // start of the run: the difference to 1250
		{uint32(SlotBase), 3000, 0, ScaleFloat},
	})
	want := []byte{1, 3, 0, 1, 'm', 4}
	want = append(want, controlScale|controlRefExplicit|controlTimeDelta|1, 2)
	want = binary.AppendUvarint(want, uint64(SlotBase)<<1)
	want = binary.AppendUvarint(want, 2000)
	want = append(want, 0xc4, 0x09)
	want = append(want, controlRefNext|controlTimeSame, 1)
	want = append(want, controlRefRunStart|controlTimeStep|1, 0xc1, 0x09) // 1−1250 in zigzag
	want = append(want, controlScale|controlRefSame|controlTimeStep, ScaleFloat, 0)
	if !bytes.Equal(b, want) {
		t.Fatalf("got  %x\nwant %x", b, want)
	}
}

// FuzzBatchReader reads arbitrary bytes. What is a batch must come back the same
// after it was encoded again.
func FuzzBatchReader(f *testing.F) {
	var e BatchEncoder
	f.Add(encode(&e, []Key{{0, 1, 'm'}, {}}, []batchPoint{{1, 17, 5, 0}, {2, 17, -5, 3}, {3, 27, 1 << 50, 15}, {1, 37, math.MinInt64, ScaleFloat}}))
	f.Add([]byte{0, 0})
	f.Add([]byte{0, 1, 0x60, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, points, err := decode(b)
		refs, errRefs := decodeRefs(b)
		if (err == nil) != (errRefs == nil) || !slices.EqualFunc(refs, points, func(ref uint32, p batchPoint) bool { return ref == p.Ref }) {
			t.Fatalf("%x: references are %v (%v) alone, and with the rest %v (%v)", b, refs, errRefs, points, err)
		}
		if err != nil {
			if !errors.Is(err, ErrBatch) {
				t.Fatal(err)
			}
			return
		}
		var e BatchEncoder
		gotKeys, gotPoints, err := decode(encode(&e, keys, points))
		if err != nil || !slices.Equal(gotPoints, points) || len(gotKeys) != len(keys) {
			t.Fatalf("%x: %v, %v", b, gotPoints, err)
		}
	})
}

// decodeRefs returns the references of points alone, as far as they can be read.
func decodeRefs(b []byte) (refs []uint32, err error) {
	var r BatchReader
	r.Reset(b)
	for ok := true; ok; {
		_, ok = r.NextDefinition()
	}
	for r.NextRef() {
		refs = append(refs, r.Ref)
	}
	return refs, r.Err()
}

func BenchmarkBatchAppend(b *testing.B) {
	var e BatchEncoder
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		e.Reset()
		for row := range 20 {
			for i := range 10 {
				e.Append(ID(row*10+i), 1700000000000, int64(row*37+i*1000), uint8(i&1)*2)
			}
		}
		n += 200
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/point")
}

func BenchmarkBatchRead(b *testing.B) {
	var e BatchEncoder
	for row := range 20 {
		for i := range 10 {
			e.Append(ID(row*10+i), 1700000000000, int64(row*37+i*1000), uint8(i&1)*2)
		}
	}
	batch := e.AppendTo(nil)
	for name, next := range map[string]func(*BatchReader) bool{"points": (*BatchReader).NextPoint, "references": (*BatchReader).NextRef} {
		b.Run(name, func(b *testing.B) {
			var r BatchReader
			n := 0
			for b.Loop() {
				r.Reset(batch)
				for next(&r) {
					n++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/point")
		})
	}
}
