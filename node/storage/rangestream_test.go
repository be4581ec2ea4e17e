package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/entry"
)

// FuzzRangeStream reads ranges whose frames are intact but say anything: they end in an
// error that says so, or all of their blocks are decoded.
func FuzzRangeStream(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 20))
	logs := newLabLogs()
	n := newLabNode(&testing.T{}, logs)
	for range 3 {
		logs[0].write(rng)
	}
	n.apply(0, math.MaxInt)
	var stream bytes.Buffer
	if err := n.e.ExportRange(context.Background(), 0, 0, math.MaxInt64, 0, &stream); err != nil {
		f.Fatal(err)
	}
	header := rangeHeader{Format: rangeFormat, Shards: labShards, ToMs: math.MaxInt64}
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

// rangeFramesOf is framesOf for a range.
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

// FuzzNamedDelete reads what may be the body of a delete with an id.
func FuzzNamedDelete(f *testing.F) {
	f.Add(entry.NamedDeleteBody(-5, series.BatchID{Session: 3, Counter: 4}, entry.DeleteBody([]uint32{1, 5}, -7, 9)))
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		timeMs, id, body, err := entry.ParseNamedDeleteBody(b)
		if err != nil {
			if !errors.Is(err, entry.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		againMs, again, rest, err := entry.ParseNamedDeleteBody(entry.NamedDeleteBody(timeMs, id, body))
		if err != nil || againMs != timeMs || again != id || !bytes.Equal(rest, body) {
			t.Fatalf("%d %v %x, %v became %d %v %x", timeMs, id, body, err, againMs, again, rest)
		}
	})
}
