package process

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/client"
)

// A forecast of new nodes, of drains and of drains that are taken back says what comes,
// and changes nothing.
func TestForecast(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--nodes", "4", "--replication", "2", "--shards", "16")
	c := connect(t, s)
	var status *client.Status
	waitFor(t, "all shards to be led", func() bool {
		var err error
		status, err = c.Status(t.Context(), false)
		return err == nil && len(status.ShardStatuses) == 16 && len(status.Moves) == 0 &&
			!slices.ContainsFunc(status.ShardStatuses, func(s client.Shard) bool { return s.Leader == "" || len(s.Members) != 3 })
	})
	ids := []string{}
	for _, n := range status.Nodes {
		ids = append(ids, n.Node)
	}
	forecast := func(change client.Change) *client.Forecast {
		t.Helper()
		f, err := c.Forecast(t.Context(), change)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := forecast(client.Change{}); len(f.Moves) != 0 || f.Refusal != "" || f.UnderReplicated != 0 || f.WithoutWitness != 0 {
		t.Errorf("nothing: %+v", f)
	}
	// A fifth node gets its share: of 48 replicas, each of five nodes has nine or ten.
	f := forecast(client.Change{Added: []client.NewNode{{Node: "five", CapacityBytes: 1 << 40}}})
	if n := movesTo(f.Moves, "five"); n < 9 || n > 10 || n != len(f.Moves) || f.Refusal != "" {
		t.Errorf("a fifth node: %d moves of %d, %+v", n, len(f.Moves), f)
	}
	// Whatever leaves the last node goes to the others.
	held := int(status.Nodes[3].FullReplicas + status.Nodes[3].Witnesses)
	f = forecast(client.Change{Drained: ids[3:]})
	if len(f.Moves) < held || held == 0 || movesTo(f.Moves, ids[3]) != 0 || f.Refusal != "" {
		t.Errorf("a drain of %d replicas: %+v", held, f)
	}
	// Two of four nodes are too few for two copies and a witness.
	if f = forecast(client.Change{Drained: ids[2:]}); f.Refusal == "" || len(f.RefusedShards) == 0 {
		t.Errorf("a drain of two: %+v", f)
	}
	// With new nodes in their place they can go.
	f = forecast(client.Change{Drained: ids[2:], Added: []client.NewNode{{Node: "five"}, {Node: "six"}}})
	if f.Refusal != "" || movesTo(f.Moves, "five") == 0 || movesTo(f.Moves, "six") == 0 || f.UnderReplicated != 0 {
		t.Errorf("two for two: %+v", f)
	}
	if f = forecast(client.Change{Undrained: ids[:1]}); len(f.Moves) != 0 {
		t.Errorf("an active node is undrained: %+v", f)
	}
	for _, wrong := range []struct {
		change client.Change
		want   error
	}{
		{client.Change{Drained: []string{"nobody"}}, client.ErrNotFound}, {client.Change{Undrained: []string{"nobody"}}, client.ErrNotFound},
		{client.Change{Added: []client.NewNode{{Node: ids[0]}}}, client.ErrInvalid}, {client.Change{Added: []client.NewNode{{Node: ""}}}, client.ErrInvalid},
		{client.Change{Drained: strings.Split(strings.Repeat("n,", 2000), ",")}, client.ErrInvalid},
	} {
		if f, err := c.Forecast(t.Context(), wrong.change); !errors.Is(err, wrong.want) {
			t.Errorf("%v; want %v: %+v", err, wrong.want, f)
		}
	}
	after, err := c.Status(t.Context(), false)
	if err != nil || len(after.Moves) > 0 || fmt.Sprint(desiredStates(after)) != fmt.Sprint(desiredStates(status)) {
		t.Errorf("a forecast has changed something: %+v, %v", after, err)
	}
}

func movesTo(moves []client.Move, node string) (n int) {
	for _, m := range moves {
		if m.ToNode == node {
			n++
		}
	}
	return n
}

func desiredStates(s *client.Status) (states []string) {
	for _, n := range s.Nodes {
		states = append(states, n.Node+" "+n.Desired)
	}
	return states
}
