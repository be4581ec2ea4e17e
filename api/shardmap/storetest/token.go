package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

func testTokens(t *testing.T, b Backend) {
	ctx := contextOf(t)
	store := b.Open(t, shardmap.Seen{})
	views := b.Open(t, shardmap.Seen{}).Watch(ctx)
	const one, two = "0123456789abcdef", "fedcba9876543210"
	must(t, store.SwapToken(ctx, one, "", "a"))
	must(t, store.SwapToken(ctx, two, "", `{"b":"ä"}`))
	await(t, views, "both", func(v shardmap.View) bool {
		return len(v.Tokens) == 2 && v.Tokens[one] == "a" && v.Tokens[two] == `{"b":"ä"}`
	})
	mustBe(t, store.SwapToken(ctx, one, "", "c"), shardmap.ErrTokenChanged)
	mustBe(t, store.SwapToken(ctx, one, "c", "d"), shardmap.ErrTokenChanged)
	mustBe(t, store.SwapToken(ctx, one, "c", ""), shardmap.ErrTokenChanged)
	must(t, store.SwapToken(ctx, one, "a", "c"))
	await(t, views, "another record", func(v shardmap.View) bool { return v.Tokens[one] == "c" })
	must(t, store.SwapToken(ctx, one, "c", ""))
	await(t, views, "one forgotten", func(v shardmap.View) bool { return len(v.Tokens) == 1 })
	mustBe(t, store.SwapToken(ctx, one, "c", "d"), shardmap.ErrTokenChanged)
	view, err := store.Load(ctx)
	must(t, err)
	if len(view.Tokens) != 1 || view.Tokens[two] == "" {
		t.Fatalf("loaded %v", view.Tokens)
	}
	// Swaps of one change count each for itself.
	must(t, store.SwapToken(ctx, one, "", "a"))
	must(t, store.SwapTokens(ctx, []shardmap.TokenSwap{{ID: one, Old: "x", Next: "y"}, {ID: two, Old: view.Tokens[two], Next: "b"}}))
	await(t, views, "one swap of two", func(v shardmap.View) bool { return v.Tokens[one] == "a" && v.Tokens[two] == "b" })
	must(t, store.SwapTokens(ctx, []shardmap.TokenSwap{{ID: one, Old: "a", Next: "c"}, {ID: two, Old: "b"}, {ID: "00000000000000ff", Old: "a", Next: "b"}}))
	await(t, views, "both", func(v shardmap.View) bool { return len(v.Tokens) == 1 && v.Tokens[one] == "c" })
	many := make([]shardmap.TokenSwap, shardmap.TokenSwapsMax)
	for i := range many {
		id := fmt.Sprintf("%016x", i)
		must(t, store.SwapToken(ctx, id, "", "a"))
		many[i] = shardmap.TokenSwap{ID: id, Old: "a", Next: strings.Repeat("x", 16<<10)}
	}
	must(t, store.SwapTokens(ctx, many))
	await(t, views, "as many as there may be", func(v shardmap.View) bool {
		return len(v.Tokens[many[0].ID]) == 16<<10 && len(v.Tokens[many[len(many)-1].ID]) == 16<<10
	})
	must(t, store.SwapTokens(ctx, nil))
	for _, bad := range [][]shardmap.TokenSwap{append(many, many[0]), {{ID: one, Next: "a"}}, {{ID: "x", Old: "a", Next: "b"}}} {
		mustBe(t, store.SwapTokens(ctx, bad), shardmap.ErrToken)
	}
	must(t, store.SwapToken(ctx, one, "c", ""))
	for _, id := range []string{"", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF", "0123456789abc/ef"} {
		mustBe(t, store.SwapToken(ctx, id, "", "a"), shardmap.ErrToken)
	}
	mustBe(t, store.SwapToken(ctx, one, "", strings.Repeat("x", 16<<10+1)), shardmap.ErrToken)
}

// testTokenRace has several processes count in one record; none may be lost.
func testTokenRace(t *testing.T, b Backend) {
	const processes, swaps, id = 4, 8, "0123456789abcdef"
	ctx := contextOf(t)
	must(t, b.Open(t, shardmap.Seen{}).SwapToken(ctx, id, "", "0"))
	var all sync.WaitGroup
	var won atomic.Int64
	for range processes {
		store := b.Open(t, shardmap.Seen{})
		all.Go(func() {
			for done := 0; done < swaps && !t.Failed(); {
				view, err := store.Load(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				n := 0
				if _, err := fmt.Sscan(view.Tokens[id], &n); err != nil {
					t.Error(err)
					return
				}
				switch err = store.SwapToken(ctx, id, view.Tokens[id], fmt.Sprint(n+1)); {
				case err == nil:
					done++
					won.Add(1)
				case !errors.Is(err, shardmap.ErrTokenChanged):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	view, err := b.Open(t, shardmap.Seen{}).Load(ctx)
	must(t, err)
	if want := fmt.Sprint(won.Load()); view.Tokens[id] != want {
		t.Fatalf("%s after %s swaps", view.Tokens[id], want)
	}
}
