package transport

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// FuzzDecodedBytes: the memory that is asked for before a message is decoded is at least what its
// values take then.
func FuzzDecodedBytes(f *testing.F) {
	write, err := proto.Marshal(&tickmeshv1.WriteRequest{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(write)
	for _, m := range []proto.Message{
		&tickmeshv1.WriteRequest{Batch: &tickmeshv1.Batch{
			Definitions: []*tickmeshv1.SeriesHandle{{Handle: 1, Series: &tickmeshv1.Series{Metric: []byte("m"), Tags: []*tickmeshv1.Tag{{Name: []byte("a"), Value: []byte("b")}}}}},
			Handles:     []uint32{1, 1}, TimeDeltasMs: []int64{5, -1}, Values: []float64{1, 2},
		}},
		&tickmeshv1.ScanRequest{
			Selector: &tickmeshv1.Selector{Metric: []byte("m"), Matchers: []*tickmeshv1.Matcher{{Name: []byte("a"), Values: [][]byte{[]byte("x"), nil}}}},
			Windows:  &tickmeshv1.Windows{WidthMs: 60_000, Aggregates: []tickmeshv1.Aggregate{1, 2}}, Limits: &tickmeshv1.ScanLimits{SeriesMax: 1},
		},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	// Fields of one to four, each an empty message, nested, numbers, groups, and what is cut.
	for _, text := range []string{"\n\x00\n\x00\n\x00", "\n\x04\n\x02\n\x00", "\x12\x00\x1a\x00\"\x00", "\x08\x96\x01\x10\x01", "\x0b\x0c", "\n\xff\xff\xff\xff\x0f", "\x0a"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []proto.Message{&tickmeshv1.WriteRequest{}, &tickmeshv1.ScanRequest{}} {
			bound := DecodedBytes(m.ProtoReflect().Descriptor(), b)
			if bound < 0 || bound > 64*len(b)+4096 {
				t.Fatalf("%d bytes for a message of %d", bound, len(b))
			}
			if proto.Unmarshal(b, m) != nil {
				continue
			}
			if held := heldBy(m.ProtoReflect()); held > bound {
				t.Fatalf("%T of %d bytes holds %d, asked were %d", m, len(b), held, bound)
			}
		}
	})
}

// heldBy returns what the values of a message take at least: its texts, numbers of lists, and a
// pointer and a few words for each message.
func heldBy(m protoreflect.Message) (total int) {
	const messageAtLeast, word = 40, 8
	total = messageAtLeast + len(m.GetUnknown())
	one := func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
		switch f.Kind() {
		case protoreflect.MessageKind, protoreflect.GroupKind:
			total += heldBy(v.Message())
		case protoreflect.StringKind:
			total += len(v.String())
		case protoreflect.BytesKind:
			total += len(v.Bytes())
		default:
			total += word / 2
		}
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			total += v.Map().Len() * word
		case f.IsList():
			for i := range v.List().Len() {
				one(f, v.List().Get(i))
			}
		default:
			one(f, v)
		}
		return true
	})
	return total
}
