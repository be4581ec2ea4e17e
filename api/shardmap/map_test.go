package shardmap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// created returns a map as it is when a cluster is made.
func created(t testing.TB, nodes int, settings Settings) Map {
	s := State{Nodes: map[string]NodeState{}, NowMs: 1}
	for i := range nodes {
		id := fmt.Sprintf("node-%d", i)
		s.Nodes[id] = NodeState{NodeInfo: NodeInfo{ID: id, Incarnation: incarnation(i + 1), RPCAddress: "h:1"}}
	}
	l := DefaultLimits()
	l.Create = Creation{Cluster: "test", ID: incarnation(99), Settings: settings, InitialNodes: nodes}
	steps := Plan(s, l)
	if len(steps) != 1 || steps[0].Kind != StepCreate {
		t.Fatalf("steps are %+v", steps)
	}
	return *steps[0].Map
}

// testShardKey keys the choice of shards.
const testShardKey = "00112233445566778899aabbccddeeff"

// TestShardKeyIsRescued builds a map from what nodes keep: the key comes with it.
func TestShardKeyIsRescued(t *testing.T) {
	m := created(t, 3, Settings{Shards: 4, Replication: 3, ShardKey: testShardKey})
	if m.Format != FormatKeyed {
		t.Errorf("format %d", m.Format)
	}
	encoded, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := Decode(encoded) // as a node keeps it
	if err != nil {
		t.Fatal(err)
	}
	if rescued, err := Rescue([]Report{{Node: "node-0", Map: &kept}}); err != nil || rescued.Settings != m.Settings || rescued.Format != m.Format {
		t.Errorf("%+v, %v", rescued.Settings, err)
	}
	for _, key := range []string{"00", testShardKey + "00", "00112233445566778899AABBCCDDEEFF"} {
		m.Settings.ShardKey = key
		if _, err := m.Encode(); !errors.Is(err, ErrMap) {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

func TestEncoding(t *testing.T) {
	for _, settings := range []Settings{{1, 1, ""}, {128, 2, ""}, {128, 3, ""}, {ShardsMax, 3, ""}, {128, 3, testShardKey}} {
		m := created(t, 5, settings)
		m.Rows[0] = m.Rows[0].WithIntended(append([]Member{{Node: "new", Incarnation: incarnation(50), Role: Full}}, m.Rows[0].Members...))
		encoded, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := Decode(encoded)
		if err != nil || !decoded.Equal(m) {
			t.Fatalf("decoded with error %v to %+v", err, decoded)
		}
		t.Logf("%d shards, replication %d: %d bytes", settings.Shards, settings.Replication, len(encoded))
	}
}

func TestDecodeRefuses(t *testing.T) {
	valid, err := created(t, 3, Settings{Shards: 4, Replication: 3}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to string
		want     error
	}{
		{`"Format":1`, `"Format":2`, ErrFormat},
		{`"Format":1`, `"Format":3,"New":1`, ErrFormat},
		{`"Replication":3`, `"Replication":3,"ShardKey":"` + testShardKey + `"`, ErrFormat}, // of format 2
		{`"Format":1`, `"Format":1,"New":1`, ErrMap},
		{`"Epoch":1`, `"Epoch":0`, ErrMap},
		{`"Epoch":1`, `"Epoch":-1`, ErrMap},
		{`"Shards":4`, `"Shards":5`, ErrMap},
		{`"Replication":3`, `"Replication":4`, ErrMap},
		{`"Role":"full"`, `"Role":"boss"`, ErrMap},
		{`"RaftID":1,`, `"RaftID":0,`, ErrMap},
		{`"RaftID":1,`, `"RaftID":2,`, ErrMap},
		{`"RaftID":3,`, `"RaftID":4,`, ErrMap},
		{`"Node":"node-0","Incarnation":"` + incarnation(1), `"Node":"node-1","Incarnation":"` + incarnation(2), ErrMap},
		{`"Node":"node-0"`, `"Node":"a/b"`, ErrMap},
		{`"Era":1`, `"Era":0`, ErrMap},
		{`"Version":1`, `"Version":0`, ErrMap},
		{`"Cluster":"test"`, `"Cluster":""`, ErrMap},
		{`"ID":"0`, `"ID":"X`, ErrMap},
		{`]}]}`, `]}]} {}`, ErrMap},
		{`{"Format"`, `["Format"`, ErrMap},
	} {
		changed := strings.Replace(string(valid), c.from, c.to, 1)
		if changed == string(valid) {
			t.Fatalf("%s is not in the map", c.from)
		}
		if _, err := Decode([]byte(changed)); !errors.Is(err, c.want) {
			t.Errorf("%s → %s: %v", c.from, c.to, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, settings := range []Settings{{1, 1, ""}, {2, 2, ""}, {2, 3, ""}} {
		m := created(f, 3, settings)
		encoded, err := m.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Add([]byte(`{"Format":1}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		m, err := Decode(encoded)
		if err != nil {
			if !errors.Is(err, ErrMap) && !errors.Is(err, ErrFormat) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatalf("a decoded map cannot be encoded: %v", err)
		}
		decoded, err := Decode(again)
		if err != nil || !decoded.Equal(m) {
			t.Fatalf("%v: %+v is not %+v", err, decoded, m)
		}
		Summarize(State{Map: &m})
		for _, row := range m.Rows {
			for _, member := range row.Members {
				m.MembersOn(member.Node)
			}
		}
		if len(m.Rows) <= 64 {
			planAnything(t, m)
		}
	})
}

// planAnything plans for a map that may be like nothing placement would make.
func planAnything(t *testing.T, m Map) {
	s := State{Map: &m, Nodes: map[string]NodeState{}, NowMs: 1 << 40}
	for _, row := range m.Rows[:1] {
		for _, member := range row.Members {
			s.Nodes[member.Node] = NodeState{NodeInfo: NodeInfo{ID: member.Node, Incarnation: member.Incarnation}}
		}
	}
	l := DefaultLimits()
	if l.MovesMax = len(m.Rows); len(s.Nodes) < len(m.Rows[0].Members) {
		return
	}
	for _, step := range Plan(s, l) {
		if step.Kind != StepIntend {
			continue
		}
		if m.Epoch == ^uint64(0) || m.Rows[step.Shard].RaftIDLast > 1<<60 || m.Rows[step.Shard].Version == ^uint64(0) {
			continue // numbers that nobody reaches
		}
		if _, err := step.Apply(&m); err != nil {
			t.Fatalf("step %+v: %v", step, err)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	m := created(t, 3, Settings{Shards: 2, Replication: 3})
	before, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	c := m.Clone()
	c.Rows[0].Members[0].Node = "x"
	c.Rows[1].RaftIDLast = 9
	next := m.WithRow(1, m.Rows[1].WithIntended(m.Rows[1].Members[:2]))
	next.Rows[1].Intended[0].Node = "y"
	if after, err := json.Marshal(m); err != nil || !bytes.Equal(before, after) {
		t.Fatalf("changed to %s", after)
	}
}

func TestMembersOn(t *testing.T) {
	m := created(t, 3, Settings{Shards: 2, Replication: 3})
	row := m.Rows[1]
	b := Member{Node: "new", Incarnation: incarnation(9), Role: Full}
	m.Rows[1] = row.WithIntended(append([]Member{b}, row.Members[1:]...))
	gone := row.Members[0].Node
	if got := m.MembersOn("new"); len(got) != 1 || got[0].Published || !got[0].Intended || got[0].Shard != 1 {
		t.Errorf("on the new node: %+v", got)
	}
	if got := m.MembersOn(gone); len(got) != 2 || !got[0].Intended || !got[0].Published || got[1].Intended || !got[1].Published {
		t.Errorf("on the one that goes: %+v", got)
	}
	if m.Moving() != 1 {
		t.Errorf("%d move", m.Moving())
	}
}

// TestPublished walks a row through a move, one called off, and one whose calling off
// came too late.
func TestPublished(t *testing.T) {
	member := func(node string, id uint64, role Role) Member {
		return Member{Node: node, Incarnation: incarnation(int(id)), RaftID: id, Role: role}
	}
	a, b, c, d := member("a", 1, Full), member("b", 2, Full), member("c", 3, Full), member("d", 4, Full)
	learner := member("d", 4, Learner)
	row := Row{Version: 1, RaftIDLast: 3, Era: 1, Fresh: true, Members: []Member{a, b, c}}
	moving := row.WithIntended([]Member{d, b, a}) // d is new: it gets raft id 4
	for _, x := range []struct {
		name     string
		row      Row
		config   []Member
		changed  bool
		intended []Member
	}{
		{"first", row, []Member{a, b, c}, true, nil},
		{"nothing new", Row{Version: 1, RaftIDLast: 3, Era: 1, Members: []Member{a, b, c}}, []Member{c, b, a}, false, nil},
		{"a learner", moving, []Member{a, b, c, learner}, true, []Member{a, b, d}},
		{"reached", moving, []Member{a, b, d}, true, nil},
		{"called off", row.WithIntended([]Member{a, b, c}), []Member{a, b, c}, true, nil},
		{"called off too late", row.WithIntended([]Member{a, b, c}), []Member{a, b, d}, true, nil},
		{"on the way", row.WithIntended([]Member{b, d}), []Member{a, b, d}, true, []Member{b, d}},
	} {
		next, changed := x.row.Published(x.config)
		if changed != x.changed || fmt.Sprint(next.Intended) != fmt.Sprint(x.intended) {
			t.Errorf("%s: %v, %+v", x.name, changed, next)
		}
		if changed && (next.Version != x.row.Version+1 || next.Fresh || next.Validate() != nil) {
			t.Errorf("%s: %+v, %v", x.name, next, next.Validate())
		}
	}
}

func TestNewestIncarnations(t *testing.T) {
	var known []Incarnation
	for i := range 3 * incarnationsMax {
		for j := range known {
			known[j].Retired = true
		}
		known = Newest(known, incarnation(i))
		if len(known) > incarnationsMax || known[len(known)-1] != (Incarnation{ID: incarnation(i)}) {
			t.Fatalf("%d known, the last is %+v", len(known), known[len(known)-1])
		}
	}
	known = Newest([]Incarnation{{ID: "a"}, {ID: "b"}}, "a")
	if fmt.Sprint(known) != "[{b false} {a false}]" {
		t.Fatal(known)
	}
}

// TestLargestMapFits checks the promise of ShardsMax.
func TestLargestMapFits(t *testing.T) {
	m := created(t, 3, Settings{Shards: ShardsMax, Replication: ReplicationMax})
	for shard := range m.Rows {
		row := &m.Rows[shard]
		row.Version, row.RaftIDLast, row.Era = 1<<40, 1<<40, 1<<20
		for i := range row.Members {
			row.Members[i].Node = fmt.Sprintf("%063d", i)
			row.Members[i].RaftID = 1<<40 - 3 + uint64(i)
		}
		if shard < 64 {
			next := row.WithIntended(row.Members)
			next.Intended[0].Node, next.Intended[0].RaftID = fmt.Sprintf("%063d", 9), 5
			*row = next
			SortMembers(row.Intended)
		}
	}
	if _, err := m.Encode(); err != nil {
		t.Fatal(err)
	}
}

// Placement has changed its mind about a replica; the leader, with the older map, has
// added the one that was wanted before. What it publishes must be a valid row.
func TestPublishedGivesUpAnAimInTheSamePlace(t *testing.T) {
	place := func(node int, id uint64, role Role) Member {
		return Member{Node: fmt.Sprintf("n%d", node), Incarnation: fmt.Sprintf("%032x", node), RaftID: id, Role: role}
	}
	row := Row{Version: 3, RaftIDLast: 3, Era: 1, Members: []Member{place(1, 1, Full)},
		Intended: []Member{place(1, 1, Full), place(2, 3, Full)}}
	published, changed := row.Published([]Member{place(1, 1, Full), place(2, 2, Learner)})
	if !changed || published.Intended != nil {
		t.Fatalf("published as %+v", published)
	}
	if err := published.Validate(); err != nil {
		t.Fatal(err)
	}
}

// TestAimOfALearnerStays checks that no learner can be given another role than the one
// that it was made for: a witness to be has no data, and would vote as if it had.
func TestAimOfALearnerStays(t *testing.T) {
	place := func(node int, id uint64, role Role) Member {
		return Member{Node: fmt.Sprintf("n%d", node), Incarnation: incarnation(node), RaftID: id, Role: role}
	}
	a, b, c := place(1, 1, Full), place(2, 2, Full), place(3, 3, Witness)
	moving := Row{Version: 1, RaftIDLast: 3, Era: 1, Members: []Member{a, b, c}}.WithIntended([]Member{a, b, place(4, 0, Witness)})
	learning, _ := moving.Published([]Member{a, b, c, place(4, 4, Learner)})
	givenUp := learning.WithIntended([]Member{a, b, c})
	left, _ := givenUp.Published([]Member{a, b, c})
	for _, x := range []struct {
		name  string
		row   Row
		asked Member
		valid bool
		id    uint64 // that the asked member gets, if valid
	}{
		{"not begun, the same", moving, place(4, 4, Witness), true, 4},
		{"not begun, another role", moving, place(4, 4, Full), true, 5},
		{"learning, the same", learning, place(4, 4, Witness), true, 4},
		{"learning, another role", learning, place(4, 4, Full), false, 0},
		{"given up, the same", givenUp, place(4, 4, Witness), false, 0},
		{"given up, another role", givenUp, place(4, 4, Full), false, 0},
		{"it has left", left, place(4, 4, Full), true, 5},
		{"another node's raft id", left, place(5, 3, Witness), true, 5},
		{"another role of a voter", learning, place(2, 2, Witness), false, 0},
	} {
		next := x.row.WithIntended([]Member{a, x.asked})
		if err := next.Validate(); (err == nil) != x.valid {
			t.Errorf("%s: %v, row %+v", x.name, err, next)
		} else if asked := next.Intended[len(next.Intended)-1]; x.valid && (asked.RaftID != x.id || !asked.SamePlace(x.asked) || asked.Role != x.asked.Role) {
			t.Errorf("%s: %+v", x.name, asked)
		}
	}
}

// TestAllocates asks of changes of a row whether a node may only go by them when others know that
// it has seen them.
func TestAllocates(t *testing.T) {
	before := created(t, 3, Settings{Shards: 2, Replication: 1})
	on := before.Rows[0].Members[0].Node
	with := func(change func(*Row)) *Map {
		m := before.Clone()
		m.Epoch++
		change(&m.Rows[0])
		return &m
	}
	for name, c := range map[string]struct {
		next *Map
		node string
		want bool
	}{
		"nothing":            {with(func(*Row) {}), on, false},
		"its members":        {with(func(r *Row) { r.Version++ }), on, false},
		"a replica here":     {with(func(r *Row) { *r = r.WithIntended([]Member{{Node: "new", Incarnation: incarnation(9), Role: Full}}) }), "new", true},
		"a replica there":    {with(func(r *Row) { *r = r.WithIntended([]Member{{Node: "new", Incarnation: incarnation(9), Role: Full}}) }), on, true},
		"of no concern":      {with(func(r *Row) { *r = r.WithIntended([]Member{{Node: "new", Incarnation: incarnation(9), Role: Full}}) }), "other", false},
		"an era":             {with(func(r *Row) { r.Era++ }), on, true},
		"another's in place": {with(func(r *Row) { r.RaftIDLast++; r.Members = []Member{{Node: "new", RaftID: r.RaftIDLast}} }), on, true},
	} {
		if is := c.next.Allocates(&before, c.node); is != c.want {
			t.Errorf("%s: %v for node %s", name, is, c.node)
		}
	}
	if !before.Allocates(nil, on) || before.Allocates(nil, "other") {
		t.Error("the first map gives raft ids to those that it names")
	}
}
