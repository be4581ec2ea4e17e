package transfer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"reflect"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// FuzzRangeStream reads ranges whose frames are intact but say anything: they end in an
// error that says so, or all of their blocks are decoded.
func FuzzRangeStream(f *testing.F) {
	header := rangeHeader{Format: rangeFormat, Shards: 4, ToMs: math.MaxInt64}
	var stream bytes.Buffer
	w := &rangeWriter{w: &stream}
	if err := w.sendJSON(frameRangeHeader, header); err != nil {
		f.Fatal(err)
	}
	for id := range uint32(3) {
		if err := errors.Join(w.add(id, []int64{5, 70, 1 << 40}, []float64{1, 2.5, float64(id)}), w.endBlock(id)); err != nil {
			f.Fatal(err)
		}
	}
	if err := errors.Join(w.flush(), w.sendJSON(frameRangeEnd, &w.end)); err != nil {
		f.Fatal(err)
	}
	whole := rangeFramesOf(f, stream.Bytes())
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, frames []byte) {
		r := &rangeReader{frames: frameReader{r: bytes.NewReader(streamOf(frames))}}
		samples := int64(0)
		err := r.begin(header)
		if err == nil {
			err = r.each(func(_ uint32, c *codec.Columns) error {
				samples += int64(c.Len())
				if len(c.Mantissas) != c.Len() || len(c.Scales) != c.Len() {
					t.Fatalf("columns of %d, %d and %d", c.Len(), len(c.Mantissas), len(c.Scales))
				}
				return nil
			})
		}
		switch {
		case err == nil && samples != r.end.Samples:
			t.Fatalf("%d samples of %d", samples, r.end.Samples)
		case err != nil && !errors.Is(err, ErrStream) && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Fatal(err)
		}
	})
}

// rangeFramesOf takes the stream of a range apart: kind u8, length u32, payload of each frame.
func rangeFramesOf(t testing.TB, stream []byte) (frames []byte) {
	r := &frameReader{r: bytes.NewReader(stream)}
	for kind := uint8(0); kind != frameRangeEnd; {
		var payload []byte
		var err error
		if kind, payload, err = r.next(); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, kind, byte(len(payload)), byte(len(payload)>>8), byte(len(payload)>>16), byte(len(payload)>>24))
		frames = append(frames, payload...)
	}
	return frames
}

// streamOf makes a stream with right numbers and checksums of what rangeFramesOf returns, or
// of anything else, as far as it goes.
func streamOf(frames []byte) (stream []byte) {
	for number := uint32(0); len(frames) >= 5; number++ {
		kind, n := frames[0], min(int64(binary.LittleEndian.Uint32(frames[1:])), int64(len(frames)-5))
		from := len(stream)
		stream = beginFrame(stream, kind, number, int(n))
		stream = endFrame(append(stream, frames[5:5+n]...), from)
		frames = frames[5+n:]
	}
	return stream
}

// FuzzBodies: parts of streams that have no target of their own are refused, or are what is
// written again.
func FuzzBodies(f *testing.F) {
	f.Add(Digest{Sum: 1 << 63, Series: 2, Samples: -1}.AppendTo(nil))
	f.Add((&streamTombstone{hides: 3, entry: 1 << 40, ids: []uint32{1, 7, 1 << 31}, fromMs: -5, toMs: 9}).encode())
	f.Add(bytes.Repeat([]byte{0xff}, 24))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := ParseDigest(b); err == nil && !bytes.Equal(d.AppendTo(nil), b) {
			t.Fatalf("a digest of %x became %x", b, d.AppendTo(nil))
		}
		if s, err := decodeStreamTombstone(b); err == nil {
			if len(s.ids) > len(b) {
				t.Fatalf("%d series of %d bytes", len(s.ids), len(b))
			}
			if again, err := decodeStreamTombstone(s.encode()); err != nil || !reflect.DeepEqual(s, again) && len(s.ids)+len(again.ids) > 0 {
				t.Fatalf("%+v became %+v: %v", s, again, err)
			}
		}
	})
}
