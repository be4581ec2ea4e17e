package wire

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// What is sent is what protobuf's own library would read.
func TestRequestEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &nodev1.WriteRequest{}
		var request []byte
		size := 0
		for range rapid.IntRange(0, 3).Draw(t, "frames") {
			f := &Frame{
				Sequence: rapid.Uint64().Draw(t, "sequence"), TimeoutMs: rapid.Uint32().Draw(t, "timeout"),
				ID: series.BatchID{Session: rapid.Uint64().Draw(t, "session"), Counter: rapid.Uint64().Draw(t, "counter")},
			}
			if rapid.Bool().Draw(t, "all") {
				f.Level = series.LevelAll
			}
			m := &nodev1.Frame{
				Level:    tickmeshv1.WriteLevel(f.Level),
				Sequence: f.Sequence, TimeoutMs: f.TimeoutMs, BatchId: &tickmeshv1.BatchId{Session: f.ID.Session, Counter: f.ID.Counter},
			}
			size += FrameBytesMax
			for range rapid.IntRange(0, 5).Draw(t, "parts") {
				p := Part{
					Shard: rapid.Uint16().Draw(t, "shard"), Era: rapid.Uint32().Draw(t, "era"),
					Batch: rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "batch"), Points: rapid.Uint32().Draw(t, "points"),
				}
				f.Parts = append(f.Parts, p)
				m.Parts = append(m.Parts, &nodev1.Part{Shard: uint32(p.Shard), Era: p.Era, Batch: p.Batch, Points: p.Points})
				size += PartBytesMax + len(p.Batch)
			}
			request = f.AppendTo(request)
			want.Frames = append(want.Frames, m)
		}
		var got nodev1.WriteRequest
		if err := proto.Unmarshal(request, &got); err != nil || !proto.Equal(&got, want) {
			t.Fatalf("%v\ngot  %v\nwant %v", err, &got, want)
		}
		if len(request) > size {
			t.Fatalf("%d bytes, expected at most %d", len(request), size)
		}
	})
}

// FuzzWriteRequest: what protobuf's own library takes for a request is read as it reads
// it; a frame that is taken has what its message says, and no shard twice.
func FuzzWriteRequest(f *testing.F) {
	for _, m := range []*nodev1.WriteRequest{
		{},
		{Frames: []*nodev1.Frame{{}, {Parts: []*nodev1.Part{{Shard: 3, Era: 1, Batch: []byte("x"), Points: 2}}}}},
		{Frames: []*nodev1.Frame{{Level: 1, Parts: []*nodev1.Part{{Points: 2}}}, {Level: 2, Parts: []*nodev1.Part{{Points: 2}}}}},
		{Frames: []*nodev1.Frame{{
			Sequence: 5, TimeoutMs: 7, BatchId: &tickmeshv1.BatchId{Session: 1, Counter: 2},
			Parts: []*nodev1.Part{{Shard: 65535, Points: 1 << 31}, {Points: 1 << 31}, {Shard: 65535}},
		}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	var reader RequestReader
	var frame ReceivedFrame
	f.Fuzz(func(t *testing.T, b []byte) {
		var m nodev1.WriteRequest
		wrong := proto.Unmarshal(b, &m) != nil
		n := 0
		for reader.Reset(b); reader.Next(&frame); n++ {
			if !wrong {
				checkReceived(t, &frame, m.GetFrames()[n])
			}
		}
		if wrong != (reader.Err() != nil) || !wrong && n != len(m.GetFrames()) || wrong && !errors.Is(reader.Err(), ErrInvalid) {
			t.Fatalf("protobuf finds it wrong: %t; %v after %d frames of %d", wrong, reader.Err(), n, len(m.GetFrames()))
		}
	})
}

func checkReceived(t *testing.T, got *ReceivedFrame, want *nodev1.Frame) {
	t.Helper()
	if got.Sequence != want.GetSequence() || got.TimeoutMs != want.GetTimeoutMs() {
		t.Fatalf("%+v of %v", got, want)
	}
	id := series.BatchID{Session: want.GetBatchId().GetSession(), Counter: want.GetBatchId().GetCounter()}
	valid := len(want.GetParts()) > 0 && want.GetLevel() >= 0 && want.GetLevel() <= 1 && (id.Session == 0) == (id.Counter == 0)
	seen, points := map[uint32]bool{}, uint64(0)
	for _, p := range want.GetParts() {
		valid = valid && p.GetShard() <= shardMax && !seen[p.GetShard()]
		seen[p.GetShard()] = true
		points += uint64(p.GetPoints())
	}
	if valid != (got.Err == nil) || !valid && !errors.Is(got.Err, ErrInvalid) {
		t.Fatalf("valid: %t; %v", valid, got.Err)
	}
	if !valid {
		return
	}
	for i, p := range want.GetParts() {
		if part := got.Frame.Parts[i]; uint32(part.Shard) != p.GetShard() || part.Era != p.GetEra() || !bytes.Equal(part.Batch, p.GetBatch()) {
			t.Fatalf("part %d of %+v", i, got.Frame)
		}
	}
	if len(got.Frame.Parts) != len(want.GetParts()) || uint64(got.Frame.Points) != min(points, 1<<31-1) || got.Frame.ID != id ||
		FromLevel(got.Frame.Level) != want.GetLevel() {
		t.Fatalf("%+v of %v", got, want)
	}
}
