package shardmap

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// world is a slow and obvious model of a cluster: nodes come and go, and groups
// reach what they are told to when their nodes are live.
type world struct {
	t      *rapid.T
	state  State
	limits Limits
	disks  int
	spent  map[uint16]map[uint64]bool // raft ids that have left, by shard
	aims   map[uint16]map[uint64]Role // what each raft id was made for, by shard
	moved  int                        // replicas that were built
}

func newWorld(t *rapid.T, settings Settings, movesMax int) *world {
	l := DefaultLimits()
	l.MovesMax = movesMax
	l.Create = Creation{Cluster: "test", ID: incarnation(0), Settings: settings, InitialNodes: 1}
	return &world{
		t: t, limits: l, spent: map[uint16]map[uint64]bool{}, aims: map[uint16]map[uint64]Role{},
		state: State{Nodes: map[string]NodeState{}, Desired: map[string]Desired{}, Incarnations: map[string][]Incarnation{}, NowMs: 1000},
	}
}

func incarnation(n int) string { return fmt.Sprintf("%032x", n) }

// start brings a node up, with the disk it had or with an empty one.
func (w *world) start(id, zone string, empty bool) {
	node := w.state.Nodes[id]
	node.ID, node.Zone, node.RPCAddress, node.DeadSinceMs = id, zone, id+":1", 0
	if node.Incarnation == "" || empty {
		w.disks++
		node.Incarnation = incarnation(w.disks)
	}
	w.state.Nodes[id] = node
	w.state.Incarnations[id] = Newest(w.state.Incarnations[id], node.Incarnation)
}

func (w *world) kill(id string) {
	node := w.state.Nodes[id]
	if node.DeadSinceMs == 0 {
		node.DeadSinceMs = w.state.NowMs
		w.state.Nodes[id] = node
	}
}

func (w *world) live(m Member) bool {
	node := w.state.Nodes[m.Node]
	return node.DeadSinceMs == 0 && node.Incarnation == m.Incarnation
}

func (w *world) able(row Row) bool {
	live, voters, full := 0, 0, false
	for _, m := range row.Members {
		if m.Role.Votes() {
			voters++
			if w.live(m) {
				live++
				full = full || m.Role == Full
			}
		}
	}
	return full && live > voters/2
}

func (w *world) plan() []Step {
	steps := Plan(w.state, w.limits)
	again := Plan(w.state, w.limits)
	if !slices.EqualFunc(steps, again, func(a, b Step) bool {
		return a.Kind == b.Kind && a.Shard == b.Shard && slices.Equal(a.Intended, b.Intended)
	}) {
		w.t.Fatalf("two plans of one state differ:\n%v\n%v", steps, again)
	}
	moving := 0
	if w.state.Map != nil {
		for _, row := range w.state.Map.Rows {
			if row.Intended != nil && w.able(row) {
				moving++
			}
		}
	}
	for _, s := range steps {
		if s.Kind == StepIntend && w.state.Map.Rows[s.Shard].Intended == nil {
			moving++
			if moving > w.limits.MovesMax {
				w.t.Fatalf("%d moves at a time, at most %d: %v", moving, w.limits.MovesMax, steps)
			}
		}
	}
	return steps
}

func (w *world) apply(s Step) {
	if s.Kind == StepRetire {
		w.retire(s)
		return
	}
	if s.Kind == StepIntend {
		w.checkIntended(s)
	}
	next, err := s.Apply(w.state.Map)
	if err != nil {
		w.t.Fatalf("step %+v: %v", s, err)
	}
	w.set(next)
}

func (w *world) retire(s Step) {
	known := w.state.Incarnations[s.Node]
	at := slices.IndexFunc(known, func(i Incarnation) bool { return i.ID == s.Incarnation })
	if at < 0 || known[at].Retired {
		w.t.Fatalf("retires what is unknown or retired: %+v", s)
	}
	if node := w.state.Nodes[s.Node]; node.DeadSinceMs == 0 && node.Incarnation == s.Incarnation {
		w.t.Fatalf("retires a live incarnation: %+v", s)
	}
	for shard, row := range w.state.Map.Rows {
		for _, m := range slices.Concat(row.Members, row.Intended) {
			if m.Node == s.Node && m.Incarnation == s.Incarnation {
				w.t.Fatalf("retires a member of shard %d: %+v", shard, s)
			}
		}
	}
	known[at].Retired = true
}

// checkIntended holds a step against what no step may do.
func (w *world) checkIntended(s Step) {
	row := w.state.Map.Rows[s.Shard]
	if !w.able(row) {
		w.t.Fatalf("a step for a group that cannot change: %+v", s)
	}
	liveBefore, fullsAfter := 0, 0
	for _, m := range row.Members {
		if m.Role == Full && w.live(m) {
			liveBefore++
		}
	}
	for _, m := range s.Intended {
		// A learner, like a replica that is not there yet, has the data before it votes.
		isNew := !slices.ContainsFunc(row.Members, func(is Member) bool { return is.SameReplica(m) && is.Role.Votes() })
		if isNew && m.RaftID == 0 && !w.live(m) {
			w.t.Fatalf("a new replica on a dead node: %+v", s)
		}
		if isNew && m.RaftID == 0 && w.state.Desired[m.Node] != "" && w.state.Desired[m.Node] != Active {
			w.t.Fatalf("a new replica on a node that is to be empty: %+v", s)
		}
		if m.Role == Full && (isNew || w.live(m)) {
			fullsAfter++
		}
	}
	if !w.sustained(row.WithIntended(s.Intended)) {
		w.t.Fatalf("a step leaves no live majority: %+v\nof row %+v", s, row)
	}
	if fullsAfter < min(liveBefore, w.state.Map.Settings.Replication) {
		w.t.Fatalf("a step gives up copies: %+v\nof row %+v", s, row)
	}
}

// set replaces the map, and checks what every change must keep.
func (w *world) set(next Map) {
	if err := next.Validate(); err != nil {
		w.t.Fatal(err)
	}
	if w.state.Map != nil {
		if next.Epoch != w.state.Map.Epoch+1 {
			w.t.Fatalf("epoch %d after %d", next.Epoch, w.state.Map.Epoch)
		}
		for shard := range next.Rows {
			w.checkRow(uint16(shard), w.state.Map.Rows[shard], next.Rows[shard])
		}
	}
	w.state.Map = &next
}

func (w *world) checkRow(shard uint16, before, after Row) {
	if before.Equal(after) {
		return
	}
	if after.Version != before.Version+1 || after.RaftIDLast < before.RaftIDLast {
		w.t.Fatalf("shard %d: %+v after %+v", shard, after, before)
	}
	all := slices.Concat(after.Members, after.Intended)
	if w.spent[shard] == nil {
		w.spent[shard] = map[uint64]bool{}
	}
	for _, m := range slices.Concat(before.Members, before.Intended) {
		if !slices.ContainsFunc(all, m.SameReplica) {
			w.spent[shard][m.RaftID] = true
		}
	}
	for _, m := range all {
		if w.spent[shard][m.RaftID] {
			w.t.Fatalf("shard %d: raft id %d is used again: %+v after %+v", shard, m.RaftID, after, before)
		}
	}
	if w.aims[shard] == nil {
		w.aims[shard] = map[uint64]Role{}
	}
	for _, m := range all {
		if aim, known := w.aims[shard][m.RaftID]; known && m.Role != Learner && m.Role != aim {
			w.t.Fatalf("shard %d: raft id %d was made as %s and is to be %s: %+v after %+v", shard, m.RaftID, aim, m.Role, after, before)
		}
		if m.Role != Learner {
			w.aims[shard][m.RaftID] = m.Role
		}
	}
}

// advance lets the group of a row do what it can: reach its aim, or add a learner.
// It reports whether it did something.
func (w *world) advance(shard uint16, halfway bool) bool {
	row := w.state.Map.Rows[shard]
	if !w.able(row) {
		return false
	}
	config := slices.Clone(row.Target())
	if halfway {
		config = slices.Clone(row.Members)
	}
	for _, m := range row.Target() {
		if slices.Contains(row.Members, m) {
			continue
		}
		if !w.live(m) {
			return false
		}
		if halfway && !slices.ContainsFunc(config, m.SamePlace) {
			m.Role = Learner
			config = append(config, m)
			break
		}
	}
	built := 0
	for _, m := range config {
		if !slices.ContainsFunc(row.Members, m.SameReplica) {
			built++
		}
	}
	next, changed := row.Published(config)
	if !changed {
		return false
	}
	w.moved += built
	w.set(w.state.Map.WithRow(shard, next))
	return true
}

// converge lets placement and all groups go on until nothing is left to do.
func (w *world) converge() {
	for round := 0; ; round++ {
		busy := false
		// As the loop does: plan anew after each step, until there is none.
		for steps := w.plan(); len(steps) > 0; steps = w.plan() {
			w.apply(steps[0])
			if busy = true; round > 100*max(1, w.limits.Create.Settings.Shards) {
				w.t.Fatalf("placement does not come to an end: %+v", steps)
			}
			round++
		}
		if w.state.Map != nil {
			for shard := range w.state.Map.Rows {
				for w.advance(uint16(shard), false) {
					busy = true
				}
			}
		}
		if !busy {
			return
		}
		if round > 100*max(1, w.limits.Create.Settings.Shards) {
			w.t.Fatalf("placement does not come to an end: %+v", w.plan())
		}
	}
}

// loads counts the members of a role on each of the nodes.
func (w *world) loads(role Role, nodes []string) map[string]int {
	count := map[string]int{}
	for _, id := range nodes {
		count[id] = 0
	}
	for _, row := range w.state.Map.Rows {
		for _, m := range row.Members {
			if m.Role == role {
				count[m.Node]++
			}
		}
	}
	return count
}

// usable returns the nodes that may hold shards.
func (w *world) usable() []string {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(w.state.Nodes)) {
		if desired := w.state.Desired[id]; w.state.Nodes[id].DeadSinceMs == 0 && (desired == "" || desired == Active) {
			ids = append(ids, id)
		}
	}
	return ids
}

func spreadOf(loads map[string]int) int {
	values := slices.Sorted(maps.Values(loads))
	if len(values) == 0 {
		return 0
	}
	return values[len(values)-1] - values[0]
}
