package storage

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

func FuzzParseEntry(f *testing.F) {
	for _, e := range []Entry{
		{Kind: EntrySamples, Shard: 3, Term: 1, Index: 1, Body: []byte("body")},
		{Kind: EntryDelete, Shard: 65535, Term: 1 << 63, Index: 1<<64 - 1},
	} {
		f.Add(append(e.AppendHeader(nil), e.Body...))
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, record []byte) {
		e, err := ParseEntry(record)
		if err != nil {
			return
		}
		if e.Index == 0 || !bytes.HasSuffix(record, e.Body) {
			t.Fatalf("%+v of %x", e, record)
		}
		again, err := ParseEntry(append(e.AppendHeader(nil), e.Body...))
		if err != nil || !reflect.DeepEqual(normal(e), normal(again)) {
			t.Fatalf("%+v became %+v, %v", e, again, err)
		}
		if len(e.AppendHeader(nil)) > EntryHeaderBytesMax {
			t.Fatalf("a header of %d bytes", len(e.AppendHeader(nil)))
		}
	})
}

// normal makes no difference between an empty body and none.
func normal(e Entry) Entry {
	if len(e.Body) == 0 {
		e.Body = nil
	}
	return e
}

func FuzzNextBatch(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3, 1, 9})
	f.Add([]byte{0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		var again []byte
		rest := body
		for len(rest) > 0 {
			batch, next, err := NextBatch(rest)
			if err != nil {
				return
			}
			if len(next) >= len(rest) {
				t.Fatalf("no progress in %x", rest)
			}
			again = append(binary.AppendUvarint(again, uint64(len(batch))), batch...)
			rest = next
		}
		// Lengths may be written in more bytes than they need.
		if len(again) > len(body) {
			t.Fatalf("%x became %x", body, again)
		}
	})
}

func FuzzDeleteBody(f *testing.F) {
	f.Add(DeleteBody([]uint32{0, 1, 5, 1<<32 - 1}, -1<<63, 1<<63-1))
	f.Add(DeleteBody(nil, 0, 0))
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, body []byte) {
		ids, fromMs, toMs, err := parseDeleteBody(body)
		if err != nil {
			return
		}
		if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) || len(ids) > len(body) {
			t.Fatalf("%v of %x", ids, body)
		}
		ids2, from2, to2, err := parseDeleteBody(DeleteBody(ids, fromMs, toMs))
		if err != nil || !slices.Equal(ids, ids2) || from2 != fromMs || to2 != toMs {
			t.Fatalf("%x: %v, %v", body, ids2, err)
		}
	})
}

func FuzzDecodeManifest(f *testing.F) {
	for _, shards := range []int{1, 3} {
		m, err := newManifest(shards)
		if err != nil {
			f.Fatal(err)
		}
		m.Segments = []segment.Meta{{Name: "a.seg", Samples: 7}}
		m.Tombstones = tombstones{{Shard: 0, IDs: []uint32{1, 2}, FromMs: -5, ToMs: 5, Generation: 2, Offset: 9}}
		b, err := m.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("tickmesh-manifest 00000000\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeManifest(b)
		if err != nil {
			return
		}
		if m.Shards < 1 || len(m.Applied) != m.Shards || len(m.RetentionCutMs) != m.Shards {
			t.Fatalf("%+v", m)
		}
		encoded, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeManifest(encoded)
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		if twice, err := again.encode(); err != nil || !bytes.Equal(encoded, twice) {
			t.Fatalf("%s became %s, %v", encoded, twice, err)
		}
	})
}

// TestManifestNoticesAnyChange flips every bit of a manifest.
func TestManifestNoticesAnyChange(t *testing.T) {
	m, err := newManifest(2)
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(b) {
		changed := slices.Clone(b)
		changed[i/8] ^= 1 << (i % 8)
		if got, err := decodeManifest(changed); err == nil && !reflect.DeepEqual(got, m) {
			t.Fatalf("bit %d makes %+v", i, got)
		}
	}
	for n := range len(b) - 1 { // the last byte is a line's end
		if _, err := decodeManifest(b[:n]); err == nil {
			t.Fatalf("%d of %d bytes were taken", n, len(b))
		}
	}
}
