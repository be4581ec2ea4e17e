package storetest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// testMetadata: records change one from the other, and whoever asks is told what changed since.
func testMetadata(t *testing.T, b Backend) {
	ctx := contextOf(t)
	one, two := b.Open(t, shardmap.Seen{}), b.Open(t, shardmap.Seen{})
	views := two.Watch(ctx)
	await(t, views, "a view", func(shardmap.View) bool { return true })
	changed, before, err := one.Metadata(ctx, 0)
	must(t, err)
	if len(changed) != 0 {
		t.Fatalf("an empty store has %v", changed)
	}
	record := shardmap.MetadataRecord{Text: []byte("a")}
	record.Revision, err = one.SwapMetadata(ctx, record)
	must(t, err)
	other := shardmap.MetadataRecord{Database: "b/c|d", Text: bytes.Repeat([]byte("x"), shardmap.MetadataBytesMax)}
	other.Revision, err = two.SwapMetadata(ctx, other)
	must(t, err)
	if record.Revision <= before || other.Revision <= record.Revision {
		t.Fatalf("revisions %d, %d, %d do not grow", before, record.Revision, other.Revision)
	}
	for _, stale := range []shardmap.MetadataRecord{{Text: []byte("b")}, {Revision: other.Revision, Text: []byte("b")}} {
		_, err = two.SwapMetadata(ctx, stale)
		mustBe(t, err, shardmap.ErrMetadataChanged)
	}
	changed, revision, err := one.Metadata(ctx, before)
	must(t, err)
	if len(changed) != 2 || revision < other.Revision {
		t.Fatalf("%d changed, at %d", len(changed), revision)
	}
	for _, got := range changed {
		want := record
		if got.Database != "" {
			want = other
		}
		if got.Database != want.Database || got.Revision != want.Revision || !bytes.Equal(got.Text, want.Text) {
			t.Errorf("%q at %d with %d bytes, want %q at %d with %d", got.Database, got.Revision, len(got.Text), want.Database, want.Revision, len(want.Text))
		}
	}
	record.Text = []byte("c")
	record.Revision, err = two.SwapMetadata(ctx, record)
	must(t, err)
	changed, _, err = one.Metadata(ctx, revision)
	must(t, err)
	if len(changed) != 1 || string(changed[0].Text) != "c" || changed[0].Revision != record.Revision {
		t.Fatalf("%v since %d", changed, revision)
	}
	_, err = one.SwapMetadata(ctx, shardmap.MetadataRecord{Revision: record.Revision})
	must(t, err)
	_, err = one.SwapMetadata(ctx, record)
	mustBe(t, err, shardmap.ErrMetadataChanged)
	changed, _, err = two.Metadata(ctx, 0)
	must(t, err)
	if len(changed) != 1 || changed[0].Database != other.Database {
		t.Fatalf("%d records are left", len(changed))
	}
	for _, bad := range []shardmap.MetadataRecord{{Database: strings.Repeat("x", 129)}, {Text: make([]byte, shardmap.MetadataBytesMax+1)}} {
		_, err = one.SwapMetadata(ctx, bad)
		mustBe(t, err, shardmap.ErrMetadata)
	}
}
