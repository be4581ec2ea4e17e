package manifest

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

func FuzzDecodeManifest(f *testing.F) {
	for _, shards := range []int{1, 3} {
		m, err := New(shards, series.ShardKey{})
		if err != nil {
			f.Fatal(err)
		}
		m.Segments = []segment.Meta{{Name: "a.seg", Samples: 7}}
		m.Tombstones = Tombstones{{Shard: 0, IDs: []uint32{1, 2}, FromMs: -5, ToMs: 5, Generation: 2, Offset: 9}}
		b, err := m.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("tickmesh-manifest 00000000\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
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
		again, err := decode(encoded)
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
	m, err := New(2, series.ShardKey{})
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
		if got, err := decode(changed); err == nil && !reflect.DeepEqual(got, m) {
			t.Fatalf("bit %d makes %+v", i, got)
		}
	}
	for n := range len(b) - 1 { // the last byte is a line's end
		if _, err := decode(b[:n]); err == nil {
			t.Fatalf("%d of %d bytes were taken", n, len(b))
		}
	}
}

// TestManifestOfAShardKey holds formats to keys: a program that does not know the key
// refuses the folder, and folders without one stay readable for it.
func TestManifestOfAShardKey(t *testing.T) {
	for key, format := range map[series.ShardKey]int{{}: 2, {7}: 3} {
		m, err := New(3, key)
		if err != nil || m.Format != format {
			t.Fatalf("format %d, %v; want %d", m.Format, err, format)
		}
		encoded, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decode(encoded); err != nil || again.ShardKey != key {
			t.Errorf("%v, %v", again, err)
		}
		m.Format = 5 - format
		if encoded, err = m.encode(); err != nil {
			t.Fatal(err)
		}
		if _, err := decode(encoded); !errors.Is(err, ErrUnusable) {
			t.Errorf("a key of %q in format %d: %v", key, m.Format, err)
		}
	}
}

// TestManifestThatForgets: a folder of either kind may have forgotten series, and says so by its format.
func TestManifestThatForgets(t *testing.T) {
	for _, key := range []series.ShardKey{{}, {7}} {
		m, err := New(3, key)
		if err != nil || m.Forgets() {
			t.Fatalf("%v, %v", m, err)
		}
		m.LetForget()
		for _, format := range []int{m.Format, m.Format + 1, m.Format + 2, m.Format + 3, m.Format + 4} {
			m.Format = format
			encoded, err := m.encode()
			if err != nil {
				t.Fatal(err)
			}
			again, err := decode(encoded)
			if (format == 6 || format == 7) && (err != nil || !again.Thins() || !again.TakesHours()) {
				t.Fatalf("format %d: %+v, %v", format, again, err)
			}
			if format == 5 && (err != nil || !again.Forgets() || !again.Thins() || again.TakesHours() || again.ShardKey != key) {
				t.Fatalf("format %d: %+v, %v", format, again, err)
			}
			if format == 4 && (err != nil || !again.Forgets() || again.ShardKey != key) || format > 7 && !errors.Is(err, ErrUnusable) {
				t.Errorf("format %d: %v, %v", format, again, err)
			}
		}
	}
}
