package cluster

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// TestLostNodes: what is told of nodes that die, come back, and are let go.
func TestLostNodes(t *testing.T) {
	var text bytes.Buffer
	l := newLostNodes(slog.New(slog.NewTextHandler(&text, nil)), 10*time.Minute)
	view := func(alive ...string) shardmap.View {
		v := shardmap.View{
			Nodes: map[string]shardmap.NodeInfo{}, Desired: map[string]shardmap.Desired{"d": shardmap.Gone},
			Incarnations: map[string][]shardmap.Incarnation{"a": nil, "b": nil, "c": nil, "d": nil},
		}
		for _, id := range alive {
			v.Nodes[id] = shardmap.NodeInfo{ID: id}
		}
		return v
	}
	for _, step := range []struct {
		alive string
		dead  string
		logs  []string // what each line has
	}{
		{"a b d", "c", nil}, // c was dead before
		{"b", "a c d", []string{"node=a replaced_after=10m0s"}},
		{"b", "a c d", nil},
		{"a b c", "d", []string{`"a node is alive" node=a`, `"a node is alive" node=c`}},
	} {
		text.Reset()
		l.see(view(strings.Fields(step.alive)...))
		for _, id := range []string{"a", "b", "c", "d", "never seen"} {
			if dead := l.deadMs(id) > 0; dead != slices.Contains(strings.Fields(step.dead), id) {
				t.Errorf("with %s alive, %s: %v", step.alive, id, dead)
			}
		}
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		slices.Sort(lines)
		for _, want := range step.logs {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, want) }) {
				t.Errorf("with %s alive: %q, want %s", step.alive, lines, want)
			}
		}
		if strings.Count(text.String(), "\n") != len(step.logs) {
			t.Errorf("with %s alive: %q, want %d lines", step.alive, lines, len(step.logs))
		}
	}
	// While the store cannot be relied on nobody is taken for dead.
	broken := view()
	broken.Err = shardmap.ErrUnavailable
	l.see(broken)
	if l.deadMs("a") != 0 {
		t.Error("a store that is down kills nodes")
	}
}

// TestLostProblems: nodes that hold nothing, or are let go, are no problem.
func TestLostProblems(t *testing.T) {
	nodes := []*tickmeshv1.NodeStatus{
		{Node: "a", Alive: true, FullReplicas: 1},
		{Node: "b", Alive: true, Witnesses: 1},
		{Node: "c", FullReplicas: 1},
		{Node: "d"},
		{Node: "f", Witnesses: 42},
		{Node: "e", FullReplicas: 1, Desired: tickmeshv1.DesiredState_DESIRED_STATE_GONE},
	}
	got := lostProblems(nodes, map[string]*nodev1.ReportResponse{"a": {}}, 600_000)
	want := []string{"node b does not answer", "node c is dead; when it has been so for 10m0s, its copies are rebuilt on other nodes",
		"node f is dead; its copies are on other nodes, and the witnesses that it had (42) are missing"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
