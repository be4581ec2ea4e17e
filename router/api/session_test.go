package api

import (
	"context"
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// nowhere is every border of a server that is asked to encode only.
type nowhere struct {
	scan.Source
	scan.Deleter
	Cluster
}

func (nowhere) Write(context.Context, *series.Frame) (series.Outcome, error) {
	return series.Outcome{Copies: 1}, nil
}

func (nowhere) Resolve(_ uint32, keys []series.Key, refs []series.Ref) {
	for i := range keys {
		refs[i] = series.Ref{Hint: series.HintNone}
	}
}

func newNowhere(tb testing.TB) *Server {
	tb.Helper()
	var n nowhere
	s, err := New(Options{Writer: n, Resolver: n, Source: n, Deleter: n, Cluster: n, Shards: 7, Limits: Limits{
		HandlesMax: 64, SessionKeysMax: 4096, InFlightBytesMax: 1 << 20, KeyBytesMax: 100, TagsMax: 3,
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// FuzzBatches sends to a session two messages of any bytes. What it takes is decoded
// again and compared with what the messages say, sample by sample; and no memory may
// stay taken.
func FuzzBatches(f *testing.F) {
	for _, b := range []*tickmeshv1.Batch{
		{},
		{
			BatchId:     &tickmeshv1.BatchId{Session: 1, Counter: 2},
			Definitions: []*tickmeshv1.SeriesHandle{{Handle: 1, Series: &tickmeshv1.Series{Metric: []byte("m"), Tags: []*tickmeshv1.Tag{{Name: []byte("a"), Value: []byte("b")}}}}, {Handle: 2}},
			Handles:     []uint32{1, 2, 1}, TimeDeltasMs: []int64{5, -1, 0}, Values: []float64{1.5, math.NaN(), math.Inf(1)},
		},
	} {
		m, err := proto.Marshal(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(m, m)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s := newNowhere(t)
		x := newSession(access.With(t.Context(), access.Anyone()), s)
		keys := map[uint32]series.Key{}
		for _, text := range [][]byte{first, second} {
			var b tickmeshv1.Batch
			if proto.Unmarshal(text, &b) != nil {
				continue
			}
			p, failed := x.prepare(&b)
			if failed != nil {
				break // the handles behind a wrong definition are not defined
			}
			for _, d := range b.GetDefinitions() {
				keys[d.GetHandle()] = nil
				if key, err := wire.AppendKey(nil, d.GetSeries()); err == nil {
					keys[d.GetHandle()] = key
				}
			}
			checkFrame(t, p, &b, keys)
			p.out.encodeKeys(&b)
			checkFrame(t, p, &b, keys)
			p.release()
		}
		x.close()
		if used := s.held.Load(); used != 0 {
			t.Fatalf("%d bytes stay taken", used)
		}
	})
}

// checkFrame compares a frame with its message: every sample that is not of a wrong
// series, in order, shard by shard.
func checkFrame(t *testing.T, p *pending, b *tickmeshv1.Batch, keys map[uint32]series.Key) {
	t.Helper()
	wrong := map[uint32]bool{}
	for _, w := range p.out.wrong {
		if wrong[w.handle] || !errors.Is(w.err, wire.ErrInvalid) {
			t.Fatalf("handle %d is wrong: %v", w.handle, w.err)
		}
		wrong[w.handle] = true
	}
	type sample struct {
		key    string
		timeMs int64
		bits   uint64
	}
	want, timeMs, points := map[uint16][]sample{}, int64(0), 0
	for i, handle := range b.GetHandles() {
		timeMs += b.GetTimeDeltasMs()[i]
		if !wrong[handle] {
			shard := keys[handle].Shard(7)
			want[shard] = append(want[shard], sample{string(keys[handle]), timeMs, math.Float64bits(b.GetValues()[i])})
			points++
		}
	}
	frame := p.out.encoder.Frame()
	if frame.Points != points || len(frame.Parts) != len(want) {
		t.Fatalf("%d points in %d parts, want %d in %d", frame.Points, len(frame.Parts), points, len(want))
	}
	for i := range frame.Parts {
		part := &frame.Parts[i]
		var r series.BatchReader
		r.Reset(part.Batch)
		var defined []string
		for key, ok := r.NextDefinition(); ok; key, ok = r.NextDefinition() {
			defined = append(defined, string(key))
		}
		for _, w := range want[part.Shard] {
			if !r.NextPoint() {
				t.Fatalf("shard %d ends early: %v", part.Shard, r.Err())
			}
			got := sample{defined[series.ID(r.Ref)-series.SlotBase], r.TimeMs, math.Float64bits(series.Float64(r.Mantissa, r.Scale))}
			if got != w {
				t.Fatalf("got %+v, want %+v", got, w)
			}
		}
		if r.NextPoint() || r.Err() != nil {
			t.Fatalf("shard %d goes on: %v", part.Shard, r.Err())
		}
	}
}

// BenchmarkEncode measures what a point of a stream costs before it is written.
func BenchmarkEncode(b *testing.B) {
	const points, count = 10_000, 50
	var n nowhere
	s, err := New(Options{Writer: n, Resolver: n, Source: n, Deleter: n, Cluster: n, Shards: 128})
	if err != nil {
		b.Fatal(err)
	}
	x := newSession(b.Context(), s)
	batch := &tickmeshv1.Batch{}
	for i := range count {
		batch.Definitions = append(batch.Definitions, &tickmeshv1.SeriesHandle{Handle: uint32(i), Series: &tickmeshv1.Series{
			Metric: []byte("cpu"), Tags: []*tickmeshv1.Tag{{Name: []byte("host"), Value: []byte{'a' + byte(i)}}},
		}})
	}
	for i := range points {
		delta := int64(0)
		if i%count == 0 {
			delta = 1000
		}
		batch.Handles, batch.TimeDeltasMs = append(batch.Handles, uint32(i%count)), append(batch.TimeDeltasMs, delta)
		batch.Values = append(batch.Values, float64(i%1000)/100)
	}
	p, failed := x.prepare(batch)
	if failed != nil {
		b.Fatal(failed)
	}
	p.release()
	batch.Definitions = nil
	b.ReportAllocs()
	for b.Loop() {
		p, failed := x.prepare(batch)
		if failed != nil {
			b.Fatal(failed)
		}
		p.release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/points, "ns/point")
}

func TestLevelsAndCounters(t *testing.T) {
	x := newSession(t.Context(), newNowhere(t))
	batch := func(counter uint64, level tickmeshv1.WriteLevel) *tickmeshv1.Batch {
		return &tickmeshv1.Batch{
			BatchId:     &tickmeshv1.BatchId{Session: 1, Counter: counter},
			Definitions: []*tickmeshv1.SeriesHandle{{Handle: 1, Series: &tickmeshv1.Series{Metric: []byte("m")}}},
			Handles:     []uint32{1}, TimeDeltasMs: []int64{5}, Values: []float64{1.5}, Level: level,
		}
	}
	for level, want := range map[tickmeshv1.WriteLevel]series.Level{0: series.LevelMajority, tickmeshv1.WriteLevel_WRITE_LEVEL_ALL: series.LevelAll} {
		p, failed := x.prepare(batch(1<<63-1, level))
		if failed != nil || p.out.encoder.Frame().Level != want {
			t.Fatal(failed)
		}
		p.release()
	}
	for _, wrong := range []*tickmeshv1.Batch{batch(1, 2), batch(1, -1), batch(1<<63, 0)} {
		if _, failed := x.prepare(wrong); failed.GetKind() != tickmeshv1.ErrorKind_ERROR_KIND_INVALID {
			t.Errorf("%v: %v", wrong, failed)
		}
	}
}
