package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// framesOf takes a stream apart, as transfer/FORMAT.md has it: kind u8, length u32, payload of each frame.
func framesOf(stream []byte) (frames []byte) {
	for len(stream) > 0 {
		n := binary.LittleEndian.Uint32(stream[5:])
		frames = binary.LittleEndian.AppendUint32(append(frames, stream[0]), n)
		frames = append(frames, stream[9:9+n]...)
		stream = stream[9+n+4:]
	}
	return frames
}

// streamOf makes a stream with right numbers and checksums of what framesOf returns, or
// of anything else, as far as it goes.
func streamOf(frames []byte) (stream []byte) {
	for number := uint32(0); len(frames) >= 5; number++ {
		n := min(int64(binary.LittleEndian.Uint32(frames[1:])), int64(len(frames)-5))
		from := len(stream)
		stream = binary.LittleEndian.AppendUint32(append(stream, frames[0]), number)
		stream = append(binary.LittleEndian.AppendUint32(stream, uint32(n)), frames[5:5+n]...)
		stream = binary.LittleEndian.AppendUint32(stream, crc32.Checksum(stream[from:], crc32.MakeTable(crc32.Castagnoli)))
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
	f.Add(framesOf(stream.Bytes()), true)
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
		case errors.Is(err, transfer.ErrStream), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, transfer.ErrConflict), errors.As(err, &corrupt), errors.Is(err, segment.ErrVersion):
			to.check("refused")
		default:
			t.Fatal(err)
		}
	})
}
