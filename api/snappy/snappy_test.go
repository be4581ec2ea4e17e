package snappy

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/snappy"
)

// contents are large and small, of everything that an encoder makes elements of.
func contents() [][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 3*stepBytes)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	mixed := append(bytes.Repeat([]byte("tickmesh,a=b value=1\n"), stepBytes/7), random...)
	return [][]byte{nil, []byte("a"), random[:stepBytes], random[:stepBytes+1], random, bytes.Repeat([]byte{' '}, 5*stepBytes), mixed}
}

func TestDecode(t *testing.T) {
	for i, content := range contents() {
		steps := 0
		got, err := Decode(nil, snappy.Encode(nil, content), func() { steps++ })
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("content %d of %d bytes: %d bytes, %v", i, len(content), len(got), err)
		}
		if most := len(content) / stepBytes; steps > most || len(content) == 5*stepBytes && steps < 4 {
			t.Errorf("content %d of %d bytes: %d steps", i, len(content), steps)
		}
	}
}

// FuzzDecode compares with the decoder of klauspost/compress, which also takes the copies of S2 that repeat an offset.
func FuzzDecode(f *testing.F) {
	for _, content := range contents() {
		f.Add(snappy.Encode(nil, content[:min(len(content), 2000)]))
	}
	f.Add([]byte{5, 0xf4, 1, 2})
	f.Add([]byte{10, 0, 'a', 1, 1, 0xfe, 1, 0, 0xff, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, block []byte) {
		n, err := DecodedLen(block)
		if err != nil || n > 1<<20 {
			return
		}
		want, wantErr := snappy.Decode(nil, block)
		got := make([]byte, n)
		_, header := binary.Uvarint(block)
		err = decode(got, block[header:], func() {})
		if err == nil && (wantErr != nil || !bytes.Equal(got, want)) {
			t.Fatalf("%x: want %x, %v, got %x", block, want, wantErr, got)
		}
		if err != nil && wantErr == nil && bytes.Equal(snappy.Encode(nil, want), block) {
			t.Fatalf("%x: %v", block, err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, content := range contents()[4:] {
		block := snappy.Encode(nil, content)
		b.Run("steps", func(b *testing.B) {
			out := make([]byte, len(content))
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				if _, err := Decode(out, block, func() {}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("assembly", func(b *testing.B) {
			out := make([]byte, len(content))
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				if _, err := snappy.Decode(out, block); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
