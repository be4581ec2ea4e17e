package memstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

func TestTokensAreBounded(t *testing.T) {
	store := NewServer().Open(shardmap.Seen{})
	defer store.Close()
	id := func(n int) string { return fmt.Sprintf("%016x", n) }
	for n := range shardmap.TokensMax {
		if err := store.SwapToken(t.Context(), id(n), "", "a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.SwapToken(t.Context(), id(shardmap.TokensMax), "", "a"); !errors.Is(err, shardmap.ErrTokens) {
		t.Error(err)
	}
	if err := store.SwapToken(t.Context(), id(0), "a", ""); err != nil {
		t.Error(err)
	}
	if err := store.SwapToken(t.Context(), id(shardmap.TokensMax), "", "a"); err != nil {
		t.Error(err)
	}
}

func TestQueriesAreBounded(t *testing.T) {
	store := NewServer().Open(shardmap.Seen{})
	defer store.Close()
	for n := range shardmap.QueriesMax {
		if err := store.SwapQuery(t.Context(), fmt.Sprint("db/", n), "", "a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.SwapQuery(t.Context(), "db/more", "", "a"); !errors.Is(err, shardmap.ErrQueries) {
		t.Error(err)
	}
	if err := store.SwapQuery(t.Context(), "db/0", "a", ""); err != nil {
		t.Error(err)
	}
	if err := store.SwapQuery(t.Context(), "db/more", "", "a"); err != nil {
		t.Error(err)
	}
}

func TestDatabasesAreBounded(t *testing.T) {
	store := NewServer().Open(shardmap.Seen{})
	defer store.Close()
	store.server.mu.databases = map[string]shardmap.DatabaseMark{}
	for i := range shardmap.DatabasesMax - 1 {
		store.server.mu.databases[fmt.Sprint("d", i)] = shardmap.DatabaseCreated
	}
	set := func(name string, mark shardmap.DatabaseMark, want error) {
		t.Helper()
		if err := store.SetDatabase(t.Context(), name, mark); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	set("last", shardmap.DatabaseCreated, nil)
	set("more", shardmap.DatabaseCreated, shardmap.ErrDatabases)
	set("d1", shardmap.DatabaseDropped, nil)
	set("d2", "", nil)
	set("more", shardmap.DatabaseCreated, nil)
}
