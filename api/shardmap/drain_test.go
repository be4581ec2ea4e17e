package shardmap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestCheckDrain(t *testing.T) {
	bytes := make([]int64, 16)
	for i := range bytes {
		bytes[i] = 100
	}
	rates := Rates{ShardBytes: bytes, BytesPerSecond: 50, MoveMs: 160}
	dead := func(ids ...string) func(*State) {
		return func(s *State) {
			for _, id := range ids {
				node := s.Nodes[id]
				node.DeadSinceMs = 1
				s.Nodes[id] = node
			}
		}
	}
	for _, c := range []struct {
		name        string
		nodes       int
		replication int
		change      func(*State)
		drain       []string
		want        error
	}{
		{"one of four", 4, 3, nil, []string{"node-0"}, nil},
		{"one of four, with witnesses", 4, 2, nil, []string{"node-0"}, nil},
		{"two of five", 5, 3, nil, []string{"node-0", "node-1"}, nil},
		{"one of two without copies", 2, 1, nil, []string{"node-0"}, nil},
		{"one of three", 3, 3, nil, []string{"node-0"}, ErrDrainCopies},
		{"the last witness", 3, 2, nil, []string{"node-0"}, ErrDrainCopies},
		{"all witnesses", 4, 2, func(s *State) {
			for id, node := range s.Nodes {
				node.Zone = map[string]string{"node-0": "z0", "node-1": "z1", "node-2": "z2", "node-3": "z0"}[id]
				s.Nodes[id] = node
			}
		}, []string{"node-1", "node-2"}, ErrDrainCopies},
		{"two of four", 4, 3, nil, []string{"node-0", "node-1"}, ErrDrainCopies},
		{"the only one", 1, 1, nil, []string{"node-0"}, ErrDrainCopies},
		{"an unknown one", 3, 1, nil, []string{"elsewhere"}, ErrDrainNode},
		{"a dead one with the only copy", 3, 1, dead("node-0"), []string{"node-0"}, ErrDrainStuck},
		{"a dead one", 4, 3, dead("node-0"), []string{"node-0"}, nil},
		{"without majorities", 4, 3, dead("node-1", "node-2"), []string{"node-0"}, ErrDrainStuck},
		{"without space", 4, 3, func(s *State) {
			for id, node := range s.Nodes {
				node.CapacityBytes, node.UsedBytes = 1000, 850
				s.Nodes[id] = node
			}
		}, []string{"node-0"}, ErrDrainSpace},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := grown(t, c.nodes, Settings{Shards: 16, Replication: c.replication})
			delete(s.Nodes, fmt.Sprintf("node-%d", c.nodes))
			if c.change != nil {
				c.change(&s)
			}
			before := s.Map.Clone()
			f, err := CheckDrain(s, DefaultLimits(), rates, c.drain...)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Fatalf("error is %v, not %v", err, c.want)
			}
			if !s.Map.Equal(before) || len(s.Desired) > 0 {
				t.Fatal("a forecast changes what it looks at")
			}
			if err != nil {
				return
			}
			checkForecast(t, s, f, c.drain)
		})
	}
}

func checkForecast(t *testing.T, s State, f Forecast, drained []string) {
	sum, most, taken := int64(0), int64(0), map[string]int64{}
	for _, move := range f.Moves {
		if slices.Contains(drained, move.Member.Node) {
			t.Errorf("a move to the drained node: %+v", move)
		}
		sum += move.Bytes
		taken[move.Member.Node] += move.Bytes
		most = max(most, taken[move.Member.Node])
	}
	// No node takes in more than 50 bytes a second; a move takes 160 ms, 8 at a time.
	want := (most+49)/50 + (int64(len(f.Moves))*20+999)/1000
	if f.Bytes != sum || sum == 0 || f.Seconds != want {
		t.Errorf("%d bytes in %d s, want %d in %d s", f.Bytes, f.Seconds, sum, want)
	}
	if err := f.Result.Validate(); err != nil {
		t.Error(err)
	}
	for _, node := range drained {
		if on := f.Result.MembersOn(node); len(on) > 0 {
			t.Errorf("%s still has %+v", node, on)
		}
	}
	if f.UnderReplicated > 0 || f.WithoutWitness > 0 {
		t.Errorf("%+v", f)
	}
}

// TestForecastTime checks what decides how long moves take.
func TestForecastTime(t *testing.T) {
	moves := []Move{
		{Shard: 0, Member: Member{Node: "a"}, Bytes: 600}, {Shard: 1, Member: Member{Node: "b"}, Bytes: 100},
		{Shard: 2, Member: Member{Node: "a"}, Bytes: 300}, {Shard: 3, Member: Member{Node: "c"}},
	}
	rates := Rates{BytesPerSecond: 100}
	arrived := rates
	arrived.Arrived = func(shard uint16, node string) int64 {
		if shard == 0 && node == "a" {
			return 500
		}
		return 1 << 40 // more than there is: the rest has not grown
	}
	steps := rates
	steps.MoveMs = 600
	for _, c := range []struct {
		name    string
		rates   Rates
		senders int
		want    int64
	}{
		{"the node that takes in most", rates, 3, 9},
		{"one that sends all", rates, 1, 10},
		{"what has come", arrived, 3, 1},
		{"steps of moves, two at a time", steps, 3, 9 + 2},
		{"no bound", Rates{MoveMs: 600}, 3, 0},
	} {
		if got := c.rates.seconds(moves, c.senders, 2); got != c.want {
			t.Errorf("%s: %d s, want %d", c.name, got, c.want)
		}
	}
}

// TestForecastComesTrue compares a forecast with what happens: about as many moves,
// and nodes end with as many copies and witnesses. Which of equal shards move, and to
// which of equal nodes, may differ, as the loop plans after each step; seldom that costs
// a move more or less.
func TestForecastComesTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := drawSettings(t)
		nodes := rapid.IntRange(2, 6).Draw(t, "nodes")
		w := convergedWorld(t, nodes, settings, func(int) string { return "" })
		w.limits.MovesMax = rapid.IntRange(1, 8).Draw(t, "movesMax")
		w.state.Desired["n1"] = Draining
		f := Simulate(w.state, w.limits, Rates{})
		w.converge()
		if off := max(len(f.Moves)-w.moved, w.moved-len(f.Moves)); off > 1+w.moved/8 {
			t.Fatalf("%d moves forecast, %d made", len(f.Moves), w.moved)
		}
		came := w.state.Map
		for _, role := range []Role{Full, Witness, Learner} {
			w.state.Map = came
			want := slices.Sorted(maps.Values(w.loads(role, w.usable())))
			w.state.Map = &f.Result
			if got := slices.Sorted(maps.Values(w.loads(role, w.usable()))); !slices.Equal(got, want) {
				t.Fatalf("%s by node: forecast %v, came %v", role, got, want)
			}
			if on := f.Result.MembersOn("n1"); len(on) != len(came.MembersOn("n1")) {
				t.Fatalf("forecast to stay on n1: %v", on)
			}
		}
	})
}

// TestDrainKeepsWitnesses: a drain that is accepted leaves a witness wherever there was
// one, and one that other nodes have room for is accepted, however zones are.
func TestDrainKeepsWitnesses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(3, 6).Draw(t, "nodes")
		zoneOf := rapid.SliceOfN(rapid.SampledFrom([]string{"", "z0", "z1", "z2"}), nodes, nodes).Draw(t, "zones")
		w := convergedWorld(t, nodes, Settings{Shards: rapid.IntRange(1, 16).Draw(t, "shards"), Replication: 2}, func(i int) string { return zoneOf[i] })
		drained := rapid.SliceOfNDistinct(rapid.SampledFrom(w.usable()), 1, nodes-1, rapid.ID[string]).Draw(t, "drained")
		f, err := CheckDrain(w.state, w.limits, Rates{}, drained...)
		if room := nodes - len(drained); room >= 3 != (err == nil) {
			t.Fatalf("%d nodes for two copies and a witness: %v", room, err)
		}
		for shard, row := range f.Result.Rows {
			if err == nil && (len(row.Members) != 3 || !slices.ContainsFunc(row.Members, func(m Member) bool { return m.Role == Witness })) {
				t.Fatalf("shard %d: %+v", shard, row.Members)
			}
		}
	})
}

func TestSummarize(t *testing.T) {
	s := grown(t, 3, Settings{Shards: 6, Replication: 2})
	if got := Summarize(s); got != (Summary{NodesLive: 4}) {
		t.Fatalf("%+v", got)
	}
	node := s.Nodes["node-0"]
	node.DeadSinceMs = 1
	s.Nodes["node-0"] = node
	if got := Summarize(s); got != (Summary{NodesLive: 3, NodesDead: 1, UnderReplicated: 4, WithoutWitness: 2, Incomplete: 6}) {
		t.Fatalf("%+v", got)
	}
	node = s.Nodes["node-1"]
	node.DeadSinceMs = 1
	s.Nodes["node-1"] = node
	if got := Summarize(s); got.Unable != 6 || got.Incomplete != 6 {
		t.Fatalf("%+v", got)
	}
	if got := Summarize(State{}); got != (Summary{}) {
		t.Fatalf("%+v", got)
	}
}

func TestTracker(t *testing.T) {
	m := created(t, 2, Settings{Shards: 1, Replication: 2})
	info := NodeInfo{ID: "node-0", Incarnation: incarnation(1), Zone: "z"}
	var tracker Tracker
	steps := []struct {
		nowMs int64
		view  View
		since map[string]int64
	}{
		{5, View{Map: &m, Nodes: map[string]NodeInfo{"node-0": info}}, map[string]int64{"node-0": 0, "node-1": 5}},
		{7, View{Map: &m, Nodes: map[string]NodeInfo{}}, map[string]int64{"node-0": 7, "node-1": 5}},
		{8, View{Map: &m, Err: ErrUnavailable, Nodes: map[string]NodeInfo{"node-0": info}}, map[string]int64{"node-0": 7, "node-1": 5}},
		{9, View{Map: &m, Nodes: map[string]NodeInfo{"other": {ID: "other"}}}, map[string]int64{"node-0": 7, "node-1": 5, "other": 0}},
		{10, View{Map: &m, Nodes: map[string]NodeInfo{"node-0": info}}, map[string]int64{"node-0": 0, "node-1": 5}},
	}
	for _, step := range steps {
		state := tracker.Observe(step.view, step.nowMs)
		since := map[string]int64{}
		for id, node := range state.Nodes {
			since[id] = node.DeadSinceMs
		}
		if fmt.Sprint(since) != fmt.Sprint(step.since) {
			t.Fatalf("at %d: %v, not %v", step.nowMs, since, step.since)
		}
		if state.Nodes["node-0"].Zone != "z" {
			t.Fatalf("at %d the zone is forgotten", step.nowMs)
		}
	}
}

// TestDrainErrorText: a refusal says how many shards it is about, and what helps.
func TestDrainErrorText(t *testing.T) {
	for want, e := range map[string]DrainError{
		"drain n2: there is no other place for its copies (2 shards: 3 7); another node has to join first": {ErrDrainCopies, []string{"n2"}, []uint16{3, 7}},
		"drain n2: the shards' groups cannot change members (9 shards: 0 1 2 3 4 5 6 7 …)":                 {ErrDrainStuck, []string{"n2"}, []uint16{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		"drain n1, n2: the other nodes have too little space; another node has to join first":              {ErrDrainSpace, []string{"n1", "n2"}, nil},
		"drain n9: no such node": {ErrDrainNode, []string{"n9"}, nil},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
