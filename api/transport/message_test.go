package transport

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
)

// Buffers that are held never share memory, and have the length that was asked for.
func TestBuffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pool Buffers
		type held struct {
			buffer *[]byte
			mark   byte
		}
		var list []held
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(list) > 0 && rapid.Bool().Draw(t, "put") {
				i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
				if b := *list[i].buffer; len(b) > 0 && (b[0] != list[i].mark || b[len(b)-1] != list[i].mark) {
					t.Fatal("somebody else has written into a buffer")
				}
				pool.Put(list[i].buffer)
				list = append(list[:i], list[i+1:]...)
				continue
			}
			length := rapid.SampledFrom([]int{0, 1, 1023, 1024, 1025, 70_000}).Draw(t, "length")
			b := pool.Get(length)
			if len(*b) != length {
				t.Fatalf("%d bytes, want %d", len(*b), length)
			}
			h := held{b, byte(step)}
			if length > 0 {
				(*b)[0], (*b)[length-1] = h.mark, h.mark
			}
			list = append(list, h)
		}
	})
}

// What is larger than all sizes is made anew each time.
func TestLargeBuffers(t *testing.T) {
	var pool Buffers
	for _, length := range []int{1 << bufferBitsMax, 1<<bufferBitsMax + 1} {
		b := pool.Get(length)
		if len(*b) != length {
			t.Fatalf("%d bytes, want %d", len(*b), length)
		}
		pool.Put(b)
	}
}

// A Message is sent as it is and received as it was sent, in pieces or not; other
// messages are protobuf's.
func TestCodec(t *testing.T) {
	c := newCodec(new(Buffers))
	for _, pieces := range [][]string{{}, {"a"}, {"some", "", "pieces"}} {
		var slice mem.BufferSlice
		want := ""
		for _, p := range pieces {
			slice = append(slice, mem.SliceBuffer(p))
			want += p
		}
		sent, err := c.Marshal(&Message{Slice: slice})
		if err != nil {
			t.Fatal(err)
		}
		for _, keep := range []bool{false, true} {
			received := Message{Keep: keep}
			if err := c.Unmarshal(sent, &received); err != nil || string(received.Bytes) != want {
				t.Fatalf("%q, %v; want %q", received.Bytes, err, want)
			}
			received.Free()
			received.Free() // does no harm
		}
	}
	sent, err := c.Marshal(wrapperspb.String("text"))
	if err != nil {
		t.Fatal(err)
	}
	var m wrapperspb.StringValue
	if err := c.Unmarshal(sent, &m); err != nil || m.GetValue() != "text" {
		t.Fatalf("%v, %v", &m, err)
	}
	if want, err := proto.Marshal(&m); err != nil || !bytes.Equal(sent.Materialize(), want) {
		t.Fatalf("%q, %v", sent.Materialize(), err)
	}
}
