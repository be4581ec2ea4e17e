package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
)

// TestRecoveriesShown words what is left of shards for people.
func TestRecoveriesShown(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC).UnixMilli()
	var out bytes.Buffer
	err := showRecoveries(&out, []client.Recovery{
		{Shard: 3, Copies: []client.ShardCopy{{Node: "n1", Role: "full", Relic: true, Term: 5, Index: 120}, {Node: "n3", Role: "witness", Term: 5, Index: 121}},
			WaitsFor: []string{"n2"}, Best: "n1", NewestMs: at},
		{Shard: 4, Copies: []client.ShardCopy{{Node: "n1", Role: "full", Unclear: true}}, WaitsFor: []string{"n1"}},
		{Shard: 5, Best: "n2", LossMsMax: 1000},
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"n1(r):5/120,n3(w):5/121", "after 2026-01-02T03:04:05.006Z, no bound", "n1:?", "everything", "at most the last 1s", "go on from the best"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}
