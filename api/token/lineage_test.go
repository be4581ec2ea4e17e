package token

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Tokens that were made with a revoked one are refused, so they make room for new ones, and they
// are forgotten as soon as it is.
func TestLineageMakesRoom(t *testing.T) {
	c := newClock()
	store := openFolder(t, t.TempDir())
	r := New(Options{Store: store, Clock: c.Now})
	q := ask("parent")
	q.Lifetime = LifetimeMax
	_, parent, err := r.Create(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	child := ask("child")
	child.Parent, child.Lifetime = parent.ID, LifetimeMax
	all := map[string]string{}
	_, first, err := r.Create(t.Context(), child)
	if err != nil {
		t.Fatal(err)
	}
	for n := range shardmap.TokensMax - 2 { // as Create would, without a file each
		one := first
		one.ID = fmt.Sprintf("%016x", n)
		if all[one.ID], err = one.encode(); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.file.Change(t.Context(), func(to map[string]string) error {
		for id, text := range all {
			to[id] = text
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r.refresh()
	if _, err := r.Revoke(t.Context(), parent.ID, "ann"); err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, l := range r.List() {
		if l.Refusal == "" {
			held++
		}
	}
	if held != 0 || len(r.List()) != shardmap.TokensMax {
		t.Fatalf("%d of %d hold", held, len(r.List()))
	}
	long := ask("new")
	long.Lifetime = LifetimeMax
	for range 3 { // the revoked one makes room for the first
		if _, _, err := r.Create(t.Context(), long); err != nil {
			t.Errorf("no other token holds, and there is no room for one: %v", err)
		}
	}
	c.move(endedKept + time.Second)
	for range shardmap.TokensMax/upkeepSwapsMax + 2 {
		r.Upkeep(t.Context())
	}
	if list := r.List(); len(list) != 3 {
		t.Errorf("30 days later %d are told of, want the 3 that hold", len(list))
	}
}
