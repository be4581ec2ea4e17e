package series

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func drawTags(t *rapid.T) []Tag {
	short := rapid.SliceOfN(rapid.Byte(), 0, 4)
	long := rapid.SliceOfN(rapid.Byte(), 120, 300)
	names := rapid.SliceOfNDistinct(rapid.OneOf(short, long, rapid.Just([]byte(FieldTagName))), 0, 6, func(b []byte) string { return string(b) }).Draw(t, "names")
	var tags []Tag
	for _, name := range names {
		tags = append(tags, Tag{Name: name, Value: rapid.OneOf(short, long).Draw(t, "value")})
	}
	return tags
}

func TestKeyRoundTrip(t *testing.T) {
	text := rapid.SliceOfN(rapid.Byte(), 0, 200)
	rapid.Check(t, func(t *rapid.T) {
		database, metric, tags := text.Draw(t, "database"), text.Draw(t, "metric"), drawTags(t)
		want := slices.Clone(tags)
		slices.SortFunc(want, func(a, b Tag) int { return strings.Compare(string(a.Name), string(b.Name)) })
		key := AppendKey(nil, database, metric, slices.Clone(tags))
		slices.Reverse(tags)
		if other := AppendKey([]byte("x"), database, metric, tags); !bytes.Equal(key, other[1:]) {
			t.Fatalf("the order of the tags makes another key")
		}
		gotDatabase, gotMetric, got, err := key.Parts(nil)
		if err != nil || !bytes.Equal(gotDatabase, database) || !bytes.Equal(gotMetric, metric) ||
			!slices.EqualFunc(got, want, func(a, b Tag) bool { return bytes.Equal(a.Name, b.Name) && bytes.Equal(a.Value, b.Value) }) {
			t.Fatalf("%v: %q %q %q", err, gotDatabase, gotMetric, got)
		}
		for _, shards := range []int{1, 128, 65536} {
			var others []Tag
			for _, tag := range want {
				if string(tag.Name) != FieldTagName {
					others = append(others, tag)
				}
			}
			if key.Shard(shards) != AppendKey(nil, database, metric, others).Shard(shards) || int(key.Shard(shards)) >= shards {
				t.Fatalf("the field changes the shard")
			}
		}
	})
}

// FuzzKeyParts checks that exactly the canonical encodings are keys: what Parts
// accepts, AppendKey writes again byte for byte.
func FuzzKeyParts(f *testing.F) {
	f.Add([]byte(AppendKey(nil, []byte("db"), []byte("cpu"), []Tag{{[]byte("host"), []byte("a")}, {[]byte("_field"), []byte("idle")}})))
	f.Add([]byte{0, 0})
	f.Add([]byte{0x80, 0x00, 0})
	f.Add([]byte{0, 1, 'm', 1, 'b', 0, 1, 'a', 0})
	f.Add([]byte{0, 1, 'm', 1, 'a', 0, 1, 'a', 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		key := Key(b)
		_ = key.ShardHash() // must end, whatever the bytes
		_ = key.String()
		database, metric, tags, err := key.Parts(nil)
		if err != nil {
			if !errors.Is(err, ErrKey) {
				t.Fatal(err)
			}
			return
		}
		if again := AppendKey(nil, database, metric, tags); !bytes.Equal(again, b) {
			t.Fatalf("%x is read as a key, which is %x", b, again)
		}
	})
}

// TestShardHashIsFixed holds the placement of series to its values: it is part
// of the durable format.
func TestShardHashIsFixed(t *testing.T) {
	for i, want := range []uint16{111, 93, 94, 110, 12, 106} {
		key := AppendKey(nil, []byte("db"), []byte("m"), []Tag{{[]byte("device"), fmt.Appendf(nil, "d_%d", i)}, {[]byte("_field"), []byte("x")}})
		if got := key.Shard(128); got != want {
			t.Errorf("%v is in shard %d, not %d", key, got, want)
		}
	}
}

// TestShardsAreEven spreads devices over shards: no shard may get less than half
// or more than twice its part.
func TestShardsAreEven(t *testing.T) {
	const shards, devices = 128, 64_000
	var count [shards]int
	for i := range devices {
		key := AppendKey(nil, nil, []byte("m"), []Tag{{[]byte("device"), fmt.Appendf(nil, "d_%d", i)}})
		count[key.Shard(shards)]++
	}
	if least, most := slices.Min(count[:]), slices.Max(count[:]); least < devices/shards/2 || most > 2*devices/shards {
		t.Errorf("between %d and %d devices in a shard", least, most)
	}
}
