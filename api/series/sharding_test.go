package series

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestSipHash compares with the vectors of the paper's authors: key 00 01 … 0f, input of
// the first n of the bytes 00 01 02 …, cut into two at every place.
func TestSipHash(t *testing.T) {
	vectors := []uint64{
		0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d, 0xcf2794e0277187b7, 0x18765564cd99a68d,
		0xcbc9466e58fee3ce, 0xab0200f58b01d137, 0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3,
	}
	want := map[int]uint64{15: 0xa129ca6149be45e5}
	for n, v := range vectors {
		want[n] = v
	}
	for n, v := range want {
		input := make([]byte, n)
		for i := range input {
			input[i] = byte(i)
		}
		for cut := range n + 1 {
			var h sipHash
			h.init(0x0706050403020100, 0x0f0e0d0c0b0a0908)
			if got := h.sum(input[:cut], input[cut:]); got != v {
				t.Errorf("%d bytes cut at %d: %x, want %x", n, cut, got, v)
			}
		}
	}
}

// TestKeyedHashOfLongInputs compares inputs that are cut in two with whole ones.
func TestKeyedHashOfLongInputs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		input := make([]byte, random.IntN(200))
		for i := range input {
			input[i] = byte(random.Uint32())
		}
		cut := random.IntN(len(input) + 1)
		var a, b sipHash
		a.init(1, 2)
		b.init(1, 2)
		if a.sum(input, nil) != b.sum(input[:cut], input[cut:]) {
			t.Fatalf("%x cut at %d has another hash", input, cut)
		}
	}
}

func labKey(device int, field string) Key {
	tags := []Tag{{[]byte("Zone"), []byte("z")}, {[]byte("device"), fmt.Appendf(nil, "d_%d", device)}}
	if field != "" {
		tags = append(tags, Tag{[]byte(FieldTagName), []byte(field)})
	}
	return AppendKey(nil, []byte("db"), []byte("m"), tags)
}

// TestKeyedShardIsFixed holds placement under a key to its values: it is part of the
// durable format.
func TestKeyedShardIsFixed(t *testing.T) {
	s := Sharding{Shards: 128, Key: ShardKey{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}
	var got []uint16
	for i := range 6 {
		got = append(got, s.Of(labKey(i, "x")))
	}
	if want := []uint16{25, 0, 64, 70, 112, 86}; !slices.Equal(got, want) {
		t.Errorf("shards %v, want %v", got, want)
	}
}

// TestFieldsShareAShard holds that the fields of one line have one shard, under a key too.
func TestFieldsShareAShard(t *testing.T) {
	key, err := NewShardKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Sharding{{Shards: 1 << 16}, {Shards: 1 << 16, Key: key}} {
		for device := range 500 {
			want := s.Of(labKey(device, ""))
			for _, field := range []string{"a", "idle", "a_field_of_some_length"} {
				if got := s.Of(labKey(device, field)); got != want {
					t.Fatalf("field %s of device %d is in shard %d, the others in %d", field, device, got, want)
				}
			}
		}
	}
}

// TestAimedKeysSpread lets a writer choose names that fall into one shard by the hash
// without a key, and sees that they spread evenly under one.
func TestAimedKeysSpread(t *testing.T) {
	const shards, aimed = 16, 16_000
	key, err := NewShardKey()
	if err != nil {
		t.Fatal(err)
	}
	unkeyed, keyed := Sharding{Shards: shards}, Sharding{Shards: shards, Key: key}
	var count [shards]int
	for device, found := 0, 0; found < aimed; device++ {
		if k := labKey(device, ""); unkeyed.Of(k) == 3 {
			found++
			count[keyed.Of(k)]++
		}
	}
	// The number in a shard has a standard deviation of 31; eight of them are no chance.
	if least, most := slices.Min(count[:]), slices.Max(count[:]); least < aimed/shards-250 || most > aimed/shards+250 {
		t.Errorf("between %d and %d of %d in a shard of %d", least, most, aimed, shards)
	}
}

func TestShardKeyText(t *testing.T) {
	var key ShardKey
	binary.LittleEndian.PutUint64(key[:], 0xabcdef)
	for _, k := range []ShardKey{{}, key} {
		if again, err := ParseShardKey(k.String()); err != nil || again != k {
			t.Errorf("%q: %v, %v", k, again, err)
		}
	}
	for _, text := range []string{"x", "00", "00000000000000000000000000000000", "ABCDEF00000000000000000000000000", key.String() + "00"} {
		if _, err := ParseShardKey(text); !errors.Is(err, ErrShardKey) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzSharding(f *testing.F) {
	f.Add([]byte(labKey(1, "x")), []byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, k, secret []byte) {
		var s Sharding
		s.Shards = 7
		copy(s.Key[:], secret)
		if s.Of(k) >= 7 { // it must end, whatever the bytes
			t.Fatal("no such shard")
		}
	})
}

func BenchmarkShard(b *testing.B) {
	key, err := NewShardKey()
	if err != nil {
		b.Fatal(err)
	}
	k := AppendKey(nil, []byte("db"), []byte("cpu"), []Tag{
		{[]byte("_field"), []byte("usage_idle")}, {[]byte("hostname"), []byte("host_1234")}, {[]byte("region"), []byte("eu-central-1")}, {[]byte("rack"), []byte("42")},
	})
	for name, s := range map[string]Sharding{"unkeyed": {Shards: 128}, "keyed": {Shards: 128, Key: key}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_ = s.Of(k)
			}
		})
	}
}

// FuzzShardKey: a key that is taken has one text, and no text is taken for no key.
func FuzzShardKey(f *testing.F) {
	for _, text := range []string{"", "00112233445566778899aabbccddeeff", "00112233445566778899AABBCCDDEEFF", strings.Repeat("0", 32), "x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := ParseShardKey(text); err == nil && k.String() != text {
			t.Fatalf("%q became %q", text, k)
		}
	})
}
