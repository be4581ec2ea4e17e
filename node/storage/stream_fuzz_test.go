package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// framesOf takes a stream apart: kind u8, length u32, payload of each frame.
func framesOf(t testing.TB, stream []byte) (frames []byte) {
	r := &frameReader{r: bytes.NewReader(stream)}
	for kind := uint8(0); kind != frameEnd; {
		var payload []byte
		var err error
		if kind, payload, err = r.next(); err != nil {
			t.Fatal(err)
		}
		frames = binary.LittleEndian.AppendUint32(append(frames, kind), uint32(len(payload)))
		frames = append(frames, payload...)
	}
	return frames
}

// streamOf makes a stream with right numbers and checksums of what framesOf gives, or
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

// FuzzInstallShard installs streams whose frames are intact but say anything. What is
// refused leaves the replica as it was; what is taken can be read and exported again.
func FuzzInstallShard(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 10))
	logs := newLabLogs()
	t := &testing.T{}
	n := newLabNode(t, logs)
	for range 3 {
		logs[0].write(rng)
	}
	logs[0].remove(rng)
	n.apply(0, math.MaxInt)
	x, err := n.e.ExportShard(0)
	if err != nil {
		f.Fatal(err)
	}
	var stream bytes.Buffer
	if _, err := x.WriteTo(&stream); err != nil {
		f.Fatal(err)
	}
	if err := errors.Join(x.Close(), n.e.Close()); err != nil {
		f.Fatal(err)
	}
	f.Add(framesOf(f, stream.Bytes()), true)
	f.Add(stream.Bytes(), false)
	f.Fuzz(func(t *testing.T, b []byte, framed bool) {
		if framed {
			b = streamOf(b)
		}
		to := newLabNode(t, newLabLogs())
		defer to.end()
		info, err := to.e.InstallShard(context.Background(), 0, 0, bytes.NewReader(b))
		var corrupt *segment.CorruptError
		switch {
		case err == nil:
			if to.appliedTo(0) != info.Index {
				t.Fatalf("entry %d of %+v", to.appliedTo(0), info)
			}
			if _, err := to.contents(0); err != nil {
				t.Fatal(err)
			}
			again, err := to.e.ExportShard(0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := again.WriteTo(io.Discard); err != nil {
				t.Fatal(err)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		case errors.Is(err, ErrStream), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, ErrConflict), errors.As(err, &corrupt), errors.Is(err, segment.ErrVersion):
			to.check("refused")
		default:
			t.Fatal(err)
		}
	})
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
