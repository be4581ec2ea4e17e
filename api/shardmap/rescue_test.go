package shardmap

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// reportsOf returns what live nodes know: each has seen some epoch of the history, and
// its replicas know the configurations that they were part of.
func reportsOf(w *world, history []Map, seen func(string) int) []Report {
	last := history[len(history)-1]
	var reports []Report
	for id, node := range w.state.Nodes {
		r := Report{Node: id, Incarnation: node.Incarnation}
		if at := seen(id); at >= 0 {
			m := history[at].Clone()
			r.Map = &m
		}
		for shard, row := range last.Rows {
			if m, is := row.MemberOn(id, node.Incarnation); is {
				r.Groups = append(r.Groups, GroupReport{
					Shard: uint16(shard), Era: row.Era, RaftID: m.RaftID, ConfigIndex: row.Version, Members: row.Members,
				})
			}
		}
		reports = append(reports, r)
	}
	return reports
}

// TestRescue: whatever epochs the nodes have seen, the groups' own members come back,
// and neither epochs nor raft ids are used again.
func TestRescue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := drawSettings(t)
		nodes := rapid.IntRange(1, 5).Draw(t, "nodes")
		w := convergedWorld(t, nodes, settings, func(int) string { return "" })
		history := []Map{w.state.Map.Clone()}
		w.start("more", "", false)
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			for _, s := range w.plan()[:min(1, len(w.plan()))] {
				w.apply(s)
				history = append(history, w.state.Map.Clone())
			}
			if w.advance(uint16(rapid.IntRange(0, settings.Shards-1).Draw(t, "shard")), false) {
				history = append(history, w.state.Map.Clone())
			}
		}
		newest := 0
		reports := reportsOf(w, history, func(string) int {
			at := rapid.IntRange(0, len(history)-1).Draw(t, "seen")
			newest = max(newest, at)
			return at
		})
		rescued, err := Rescue(reports)
		if err != nil {
			t.Fatal(err)
		}
		last := history[len(history)-1]
		if rescued.Epoch <= last.Epoch || rescued.ID != last.ID || rescued.Moving() > 0 {
			t.Fatalf("epoch %d after %d, %d moving", rescued.Epoch, last.Epoch, rescued.Moving())
		}
		for shard, row := range rescued.Rows {
			if was := last.Rows[shard]; !slices.Equal(row.Members, was.Members) || row.RaftIDLast <= was.RaftIDLast || row.Version <= was.Version {
				t.Fatalf("shard %d: %+v, was %+v", shard, row, was)
			}
		}
		w.state.Map = &rescued
		w.converge()
		w.checkAtRest()
	})
}

func TestRescueRefuses(t *testing.T) {
	m, other := created(t, 3, Settings{Shards: 2, Replication: 3}), created(t, 3, Settings{Shards: 2, Replication: 3})
	other.ID = incarnation(55)
	stray := GroupReport{Shard: 9, Era: 1, RaftID: 1, Members: m.Rows[0].Members}
	for name, reports := range map[string][]Report{
		"nobody":         nil,
		"nobody has one": {{Node: "a"}},
		"two clusters":   {{Node: "a", Map: &m}, {Node: "b", Map: &other}},
		"a stray shard":  {{Node: "a", Map: &m, Groups: []GroupReport{stray}}},
		"no full voter":  {{Node: "a", Map: &m, Groups: []GroupReport{{Era: 2, Members: []Member{{Node: "a", Incarnation: incarnation(1), RaftID: 1, Role: Witness}}}}}},
	} {
		if _, err := Rescue(reports); !errors.Is(err, ErrRescue) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOvertaken(t *testing.T) {
	m := created(t, 3, Settings{Shards: 4, Replication: 3})
	m.Epoch = 7
	view := func(m *Map, id string, epoch uint64) View {
		return View{Map: m, Nodes: map[string]NodeInfo{"a": {}, "b": {ClusterID: id, Epoch: epoch}}}
	}
	for _, x := range []struct {
		name string
		view View
		want error
	}{
		{"nothing was ever seen", view(nil, "", 0), nil},
		{"nobody has seen more", view(&m, m.ID, 7), nil},
		{"a node lags behind", view(&m, m.ID, 6), nil},
		{"a node has seen more", view(&m, m.ID, 8), ErrRolledBack},
		{"the map is gone", view(nil, m.ID, 1), ErrRolledBack},
		{"another cluster", view(&m, incarnation(55), 1), ErrWrongCluster},
	} {
		if err := x.view.Overtaken(); !errors.Is(err, x.want) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}
