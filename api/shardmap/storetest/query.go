package storetest

import (
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

func testQueries(t *testing.T, b Backend) {
	ctx := contextOf(t)
	store := b.Open(t, shardmap.Seen{})
	views := b.Open(t, shardmap.Seen{}).Watch(ctx)
	const one, two = "db/one", "d%2Fb/a%20b"
	must(t, store.SwapQuery(ctx, one, "", "a"))
	must(t, store.SwapQuery(ctx, two, "", `{"b":"ä"}`))
	await(t, views, "both", func(v shardmap.View) bool {
		return len(v.Queries) == 2 && v.Queries[one] == "a" && v.Queries[two] == `{"b":"ä"}`
	})
	mustBe(t, store.SwapQuery(ctx, one, "", "c"), shardmap.ErrQueryChanged)
	mustBe(t, store.SwapQuery(ctx, one, "c", "d"), shardmap.ErrQueryChanged)
	must(t, store.SwapQuery(ctx, one, "a", "c"))
	await(t, views, "another record", func(v shardmap.View) bool { return v.Queries[one] == "c" })
	must(t, store.SwapQuery(ctx, one, "c", ""))
	await(t, views, "one forgotten", func(v shardmap.View) bool { return len(v.Queries) == 1 })
	view, err := store.Load(ctx)
	must(t, err)
	if len(view.Queries) != 1 || view.Queries[two] == "" || len(view.Tokens) != 0 {
		t.Fatalf("loaded %v", view.Queries)
	}
	for _, id := range []string{"", "a b", "a\n", "ä", strings.Repeat("x", 1025)} {
		mustBe(t, store.SwapQuery(ctx, id, "", "a"), shardmap.ErrQuery)
	}
	mustBe(t, store.SwapQuery(ctx, one, "", strings.Repeat("x", 16<<10+1)), shardmap.ErrQuery)
}
