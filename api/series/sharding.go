package series

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
)

// ShardKeyBytes is the length of a ShardKey.
const ShardKeyBytes = 16

// ErrShardKey marks a text that is not a ShardKey.
var ErrShardKey = errors.New("not a shard key")

// ShardKey keys the hash that chooses the shards of series, so that a writer who does
// not know it cannot choose names that all fall into one shard. It is drawn when a cluster
// or a data folder is made and never changes. The zero value stands for the hash without
// a key, which clusters and folders made by earlier versions keep.
type ShardKey [ShardKeyBytes]byte

// NewShardKey draws a key. Errors: those of the system's source of randomness.
func NewShardKey() (k ShardKey, err error) {
	if _, err := rand.Read(k[:]); err != nil {
		return k, fmt.Errorf("draw a shard key: %w", err)
	}
	return k, nil
}

// ParseShardKey reads what String returned; an empty text is the zero key. Errors:
// ErrShardKey.
func ParseShardKey(text string) (k ShardKey, err error) {
	if text == "" {
		return k, nil
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != ShardKeyBytes || hex.EncodeToString(b) != text || [ShardKeyBytes]byte(b) == k {
		return k, fmt.Errorf("%w: want %d hexadecimal digits that are not all 0", ErrShardKey, 2*ShardKeyBytes)
	}
	return ShardKey(b), nil
}

// String returns the key as 32 hexadecimal digits, or nothing for the zero key.
func (k ShardKey) String() string {
	if k == (ShardKey{}) {
		return ""
	}
	return hex.EncodeToString(k[:])
}

// MarshalText implements encoding.TextMarshaler.
func (k ShardKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Errors: ErrShardKey.
func (k *ShardKey) UnmarshalText(text []byte) (err error) {
	*k, err = ParseShardKey(string(text))
	return err
}

// Sharding chooses the shards of series.
type Sharding struct {
	Shards int // 1 to 65,536
	Key    ShardKey
}

// Of returns the shard of a series. It is part of the durable format: for one key and
// number of shards it is the same in every process and version.
func (s Sharding) Of(key Key) uint16 {
	if s.Key == (ShardKey{}) {
		return key.Shard(s.Shards)
	}
	return uint16(key.keyedHash(&s.Key) % uint64(s.Shards))
}

// keyedHash is SipHash-2-4 over the same bytes as ShardHash.
func (k Key) keyedHash(key *ShardKey) uint64 {
	head, tail := k.withoutField()
	var h sipHash
	h.init(binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:]))
	return h.sum(head, tail)
}

// withoutField returns the key's bytes before and after its tag `_field`. A key that is
// cut short ends where the last whole part does.
func (k Key) withoutField() (head, tail []byte) {
	rest := []byte(k)
	for n := 0; len(rest) > 0; n++ {
		part, after, ok := cutPart(rest)
		if !ok {
			return k[:len(k)-len(rest)], nil
		}
		if n >= 2 && n%2 == 0 && string(part) == FieldTagName {
			if _, after, ok = cutPart(after); !ok {
				return k[:len(k)-len(rest)], nil
			}
			return k[:len(k)-len(rest)], after
		}
		rest = after
	}
	return k, nil
}

// sipHash is the state of SipHash-2-4 by Aumasson and Bernstein, a pseudorandom function
// that is made for short inputs: https://www.aumasson.jp/siphash/siphash.pdf
type sipHash struct{ v0, v1, v2, v3 uint64 }

func (h *sipHash) init(k0, k1 uint64) {
	h.v0 = k0 ^ 0x736f6d6570736575
	h.v1 = k1 ^ 0x646f72616e646f6d
	h.v2 = k0 ^ 0x6c7967656e657261
	h.v3 = k1 ^ 0x7465646279746573
}

// sum hashes head and tail as if they were one, without a copy.
func (h *sipHash) sum(head, tail []byte) uint64 {
	v0, v1, v2, v3 := h.v0, h.v1, h.v2, h.v3
	length := uint64(len(head) + len(tail))
	// carry has the bytes that do not fill a word yet, in its low carried bits.
	var carry uint64
	var carried uint
	for _, b := range [2][]byte{head, tail} {
		for ; len(b) >= 8; b = b[8:] {
			next := binary.LittleEndian.Uint64(b)
			word := carry | next<<carried
			carry = next >> (64 - carried) // 0 when nothing is carried
			v3 ^= word
			v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
			v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
			v0 ^= word
		}
		for _, c := range b {
			carry |= uint64(c) << carried
			if carried += 8; carried == 64 {
				v3 ^= carry
				v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
				v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
				v0 ^= carry
				carry, carried = 0, 0
			}
		}
	}
	carry |= length << 56
	v3 ^= carry
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= carry
	v2 ^= 0xff
	for range 4 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (_, _, _, _ uint64) {
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
