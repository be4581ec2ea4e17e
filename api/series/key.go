package series

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Limits of a key's parts. They bound the work of anything that reads a key;
// the router's configurable limits are lower.
const (
	KeyBytesMax  = 1<<16 - 1
	TagsMax      = 1 << 10
	FieldTagName = "_field"
)

// ErrKey marks a byte string that is not a canonical key.
var ErrKey = errors.New("not a canonical series key")

// Tag is one name and value of a series.
type Tag struct {
	Name  []byte
	Value []byte
}

// Key is the canonical encoding of a series' identity:
//
//	len(database) database len(metric) metric (len(name) name len(value) value)*
//
// where every len is an unsigned varint and the tags are in strictly growing
// order of their names. Two series are the same series if and only if their
// keys are equal, byte for byte.
type Key []byte

// AppendKey appends the canonical key to dst. Tags must have unique names; they
// are put into order in place.
func AppendKey(dst []byte, database, metric []byte, tags []Tag) Key {
	if !slices.IsSortedFunc(tags, compareTagNames) {
		slices.SortFunc(tags, compareTagNames)
	}
	dst = AppendPart(AppendPart(dst, database), metric)
	for i := range tags {
		dst = AppendPart(AppendPart(dst, tags[i].Name), tags[i].Value)
	}
	return dst
}

// AppendPart appends one length-prefixed part of a key.
func AppendPart(dst, part []byte) []byte {
	if len(part) < 0x80 {
		dst = append(dst, byte(len(part)))
	} else {
		dst = binary.AppendUvarint(dst, uint64(len(part)))
	}
	return append(dst, part...)
}

func compareTagNames(a, b Tag) int { return bytes.Compare(a.Name, b.Name) }

// Parts returns the database, the metric and, appended to tags, the tags of the
// key. All results point into the key. It returns ErrKey when the bytes are not
// canonical.
func (k Key) Parts(tags []Tag) (database, metric []byte, _ []Tag, err error) {
	rest := []byte(k)
	var ok bool
	if database, rest, ok = cutPart(rest); !ok {
		return nil, nil, tags, fmt.Errorf("%w: database is cut short", ErrKey)
	}
	if metric, rest, ok = cutPart(rest); !ok {
		return nil, nil, tags, fmt.Errorf("%w: metric is cut short", ErrKey)
	}
	var previous []byte
	for n := 0; len(rest) > 0; n++ {
		var t Tag
		if t.Name, rest, ok = cutPart(rest); !ok {
			return nil, nil, tags, fmt.Errorf("%w: name of tag %d is cut short", ErrKey, n)
		}
		if t.Value, rest, ok = cutPart(rest); !ok {
			return nil, nil, tags, fmt.Errorf("%w: value of tag %d is cut short", ErrKey, n)
		}
		if n > 0 && bytes.Compare(previous, t.Name) >= 0 {
			return nil, nil, tags, fmt.Errorf("%w: tag %q does not come after %q", ErrKey, t.Name, previous)
		}
		previous = t.Name
		tags = append(tags, t)
	}
	return database, metric, tags, nil
}

func cutPart(b []byte) (part, rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, nil, false
	}
	n, used := uint64(b[0]), 1
	if n >= 0x80 {
		n, used = binary.Uvarint(b)
		if used <= 0 || n < 0x80 { // the short form is the only canonical one
			return nil, nil, false
		}
		if used > 1 && b[used-1] == 0 {
			return nil, nil, false
		}
	}
	if n > uint64(len(b)-used) {
		return nil, nil, false
	}
	end := used + int(n)
	return b[used:end:end], b[end:], true
}

// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

// ShardHash is the hash that places a series: over database, metric and all
// tags but `_field`, so that the fields of one line share a shard. It is part of
// the durable format and never changes.
func (k Key) ShardHash() uint64 {
	h := uint64(fnvOffset)
	rest := []byte(k)
	for n := 0; len(rest) > 0; n++ {
		part, after, ok := cutPart(rest)
		if !ok {
			break
		}
		if n >= 2 && n%2 == 0 && string(part) == FieldTagName {
			if _, after, ok = cutPart(after); !ok {
				break
			}
			rest = after
			n++
			continue
		}
		for _, c := range rest[:len(rest)-len(after)] {
			h = (h ^ uint64(c)) * fnvPrime
		}
		rest = after
	}
	// FNV's high bits are weak; the finalizer of MurmurHash3 mixes them.
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h
}

// Shard returns the shard of a key by the hash without a ShardKey; see Sharding.
func (k Key) Shard(shards int) uint16 {
	return uint16(k.ShardHash() % uint64(shards))
}

// String writes the key as database/metric{name=value,…} for people.
func (k Key) String() string {
	database, metric, tags, err := k.Parts(nil)
	if err != nil {
		return fmt.Sprintf("invalid key %x", []byte(k))
	}
	var b bytes.Buffer
	if len(database) > 0 {
		fmt.Fprintf(&b, "%s/", database)
	}
	fmt.Fprintf(&b, "%s{", metric)
	for i, t := range tags {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%s", t.Name, t.Value)
	}
	b.WriteByte('}')
	return b.String()
}

// Head returns the database and the metric of the key, which point into it, and the length
// of what they take of it. Not ok: the key is cut short.
func (k Key) Head() (database, metric []byte, length int, ok bool) {
	rest := []byte(k)
	if database, rest, ok = cutPart(rest); !ok {
		return nil, nil, 0, false
	}
	if metric, rest, ok = cutPart(rest); !ok {
		return nil, nil, 0, false
	}
	return database, metric, len(k) - len(rest), true
}
