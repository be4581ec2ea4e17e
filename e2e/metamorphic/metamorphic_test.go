package metamorphic

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
)

var (
	seed  = flag.Uint64("seed", 1, "what is written and asked")
	steps = flag.Int("steps", 90, "writes and deletes")
)

// bound is far above what anything here takes; no result depends on it.
const bound = 5 * time.Minute

const (
	firstMs = 1_700_000_000_000
	spanMs  = 4 * 3600_000
)

// queries cover plain samples, sums over many series, groups, windows, rates and fills.
func queries() []string {
	return []string{
		"none:load", "sum:load", "avg:1m-avg:load{host=*}", "dev:5m-sum:load", "p95:10m-max:load{zone=*}", "zimsum:load{host=wildcard(h1*)}",
		"sum:rate:load", "max:30m-count-zero:load{zone=literal_or(z0|z2)}", "mimmin:load{host=not_literal_or(h3)}", "sum:1h-first-nan:load",
		"avg:7m-last-none:load", "none:temp{zone=z1}", "sum:rate{counter,,1000}:temp", "count:load",
	}
}

// body is a batch of lines: any order of time, times that come again with other values.
func body(rng *rand.Rand) string {
	var lines strings.Builder
	for range 60 {
		value := strconv.FormatFloat(math.Round(rng.NormFloat64()*1e4)/100, 'g', -1, 64)
		if rng.IntN(4) == 0 {
			value = strconv.FormatFloat(rng.NormFloat64()*math.Pow(10, float64(rng.IntN(40)-20)), 'g', -1, 64)
		}
		metric := "load"
		if rng.IntN(3) == 0 {
			metric = "temp"
		}
		at := firstMs + rng.Int64N(spanMs)/10_000*10_000
		fmt.Fprintf(&lines, "%s,host=h%d,zone=z%d value=%s %d\n", metric, rng.IntN(20), rng.IntN(3), value, at)
	}
	return lines.String()
}

// send repeats a request while the server asks for that.
func send(ctx context.Context, t *testing.T, method, target, content string) string {
	t.Helper()
	for {
		request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		response.Body.Close()
		switch {
		case err != nil:
			t.Fatal(err)
		case response.StatusCode == http.StatusServiceUnavailable && ctx.Err() == nil:
			time.Sleep(50 * time.Millisecond)
		case response.StatusCode >= http.StatusMultipleChoices && response.StatusCode != http.StatusBadRequest:
			t.Fatalf("%s %s: %s: %s", method, target, response.Status, answer)
		default:
			return string(answer)
		}
	}
}

func query(m string, remove bool) string {
	values := url.Values{"start": {strconv.Itoa(firstMs)}, "end": {strconv.Itoa(firstMs + spanMs)}, "m": {m}, "ms": {"true"}}
	if remove {
		values.Set("delete", "true")
	}
	return "/api/query?" + values.Encode()
}

// await waits until the map is as wanted: the moves before have really been made.
func await(ctx context.Context, t *testing.T, store shardmap.Store, what string, wanted func(m *shardmap.Map) bool) {
	t.Helper()
	for {
		view, err := store.Load(ctx)
		if err != nil {
			t.Fatalf("wait for %s: %v", what, err)
		}
		if wanted(view.Map) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// movement changes the cluster at some steps: it grows from three nodes to five, and one
// of the first leaves and comes back.
func movement(ctx context.Context, t *testing.T, c *harness.Cluster, store shardmap.Store, step int) {
	t.Helper()
	desire := func(node string, desired shardmap.Desired) {
		if err := store.SetDesired(ctx, node, desired); err != nil {
			t.Fatal(err)
		}
	}
	switch step {
	case 15:
		for _, id := range []string{"n4", "n5"} {
			if _, err := c.AddNode(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
	case 35:
		await(ctx, t, store, "n5 to have data", func(m *shardmap.Map) bool { return len(m.MembersOn("n5")) > 0 })
		desire("n1", shardmap.Draining)
	case 60:
		await(ctx, t, store, "n1 to be empty", func(m *shardmap.Map) bool { return len(m.MembersOn("n1")) == 0 })
		desire("n1", shardmap.Active)
	case 70:
		desire("n4", shardmap.Draining)
	}
}

func TestOneServerAndAMovingClusterAnswerTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test builds and starts a cluster")
	}
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	alone := harnesstest.Standalone(t, "--shards", "8")
	cluster := harnesstest.Cluster(t, harness.ClusterOptions{
		Nodes: 3, Routers: 1, Shards: 8, Replication: 2, NodeFlags: []string{"--checkpoint-bytes", "64KiB"},
	})
	store, err := cluster.OpenStore()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	bases := [2]string{"http://" + alone.HTTPAddr, "http://" + cluster.Servers(harness.RoleRouter)[0].HTTPAddr()}
	both := func(method, path, content string) {
		t.Helper()
		one, many := send(ctx, t, method, bases[0]+path, content), send(ctx, t, method, bases[1]+path, content)
		if one != many {
			t.Fatalf("%s %s: the cluster answers\n%.2000s\none server answers\n%.2000s", method, path, many, one)
		}
	}
	rng := rand.New(rand.NewPCG(*seed, 0))
	for step := range *steps {
		movement(ctx, t, cluster, store, step)
		both(http.MethodPost, "/write?precision=ms", body(rng))
		switch rng.IntN(12) {
		case 0:
			m := fmt.Sprintf("none:load{host=h%d}", rng.IntN(20))
			both(http.MethodGet, query(m, true), "")
		case 1, 2, 3:
			both(http.MethodGet, query(queries()[rng.IntN(len(queries()))], false), "")
		}
		if step%15 == 14 || step == *steps-1 {
			for _, m := range queries() {
				both(http.MethodGet, query(m, false), "")
			}
		}
	}
	both(http.MethodGet, "/api/suggest?type=metrics", "")
	both(http.MethodGet, "/api/suggest?type=tagv&q=h1", "")
}
