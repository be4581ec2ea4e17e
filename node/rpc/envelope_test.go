package rpc

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// What is sent is what protobuf's own library would read, small envelopes and large ones.
func TestExchangeEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &nodev1.ExchangeRequest{}
		for range rapid.IntRange(0, 6).Draw(t, "envelopes") {
			size := rapid.SampledFrom([]int{0, 1, 127, 128, envelopeCopyMax, envelopeCopyMax + 1, 20_000}).Draw(t, "bytes")
			envelope := make([]byte, size)
			for i := range envelope {
				envelope[i] = byte(i + size)
			}
			want.Envelopes = append(want.Envelopes, envelope)
		}
		if rapid.Bool().Draw(t, "clock") {
			want.ClockMs = proto.Int64(rapid.Int64().Draw(t, "clock, ms"))
			want.Forgets, want.Thins, want.Hours, want.Exemplars = rapid.Uint32().Draw(t, "forgets"), rapid.Uint32().Draw(t, "thins"), rapid.Uint32().Draw(t, "hours"), rapid.Uint32().Draw(t, "exemplars")
		}
		encoded := exchangeMessage(want).Slice.Materialize()
		var got, read nodev1.ExchangeRequest
		if err := proto.Unmarshal(encoded, &got); err != nil || !proto.Equal(&got, want) {
			t.Fatalf("%v\ngot  %v\nwant %v", err, &got, want)
		}
		if err := readExchange(encoded, &read); err != nil || !proto.Equal(&read, want) {
			t.Fatalf("%v\nread %v\nwant %v", err, &read, want)
		}
	})
}

// FuzzExchange: what protobuf's own library takes is read as it reads it, and nothing
// else is taken.
func FuzzExchange(f *testing.F) {
	for _, m := range []*nodev1.ExchangeRequest{{}, {Envelopes: [][]byte{{}, []byte("abc")}, ClockMs: proto.Int64(-5), Forgets: 2, Thins: 1, Hours: 2, Exemplars: 1}} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x0a, 0x05, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var want, got nodev1.ExchangeRequest
		wrong := proto.Unmarshal(b, &want) != nil
		err := readExchange(b, &got)
		if wrong != (err != nil) || wrong && !errors.Is(err, wire.ErrInvalid) {
			t.Fatalf("protobuf finds it wrong: %t; %v", wrong, err)
		}
		if want.ProtoReflect().SetUnknown(nil); !wrong && !proto.Equal(&want, &got) {
			t.Fatalf("got %v, want %v", &got, &want)
		}
	})
}
