package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// scene returns the facts of a cluster of n nodes with replication 2 that is well: shard i
// has copies on nodes i and i+1, and a witness on i+2.
func scene(n int) Facts {
	f := Facts{
		NowMs: 1_000_000, Want: Want{Drained: map[string]bool{}}, Groups: []Group{{Name: "demo-node", Count: n, Replicas: n}}, Machines: map[string]Machine{},
		Limits: shardmap.DefaultLimits(), EmptyForMs: map[string]int64{},
	}
	f.State = shardmap.State{
		Nodes: map[string]shardmap.NodeState{}, Desired: map[string]shardmap.Desired{}, Incarnations: map[string][]shardmap.Incarnation{}, NowMs: f.NowMs,
		Map: &shardmap.Map{Format: 1, Cluster: "demo", ID: folder(99), Epoch: 1, Settings: shardmap.Settings{Shards: n, Replication: 2}},
	}
	for i := range n {
		machine := fmt.Sprintf("m%d", i)
		f.Machines[machine] = Machine{}
		f.Groups[0].Pods = append(f.Groups[0].Pods, Pod{Ordinal: i, UID: fmt.Sprintf("p%d", i), Machine: machine, Running: true, Ready: true})
		f.Groups[0].Claims = append(f.Groups[0].Claims, Claim{Ordinal: i, Name: "data-" + f.NodeName(i), UID: fmt.Sprintf("c%d", i), Machine: machine})
		f.State.Nodes[f.NodeName(i)] = shardmap.NodeState{NodeInfo: shardmap.NodeInfo{ID: f.NodeName(i), Incarnation: folder(i)}}
		f.State.Incarnations[f.NodeName(i)] = []shardmap.Incarnation{{ID: folder(i)}}
		var members []shardmap.Member
		for j, role := range []shardmap.Role{shardmap.Full, shardmap.Full, shardmap.Witness} {
			at := (i + j) % n
			members = append(members, shardmap.Member{Node: f.NodeName(at), Incarnation: folder(at), RaftID: uint64(j + 1), Role: role})
		}
		f.State.Map.Rows = append(f.State.Map.Rows, shardmap.Row{Version: 1, RaftIDLast: 3, Era: 1, Members: members})
		s := Shard{Leader: members[0].Node, CommitIndex: 1000}
		for _, m := range members {
			s.Members = append(s.Members, Replica{Member: m, MatchIndex: 1000, Active: true})
		}
		f.Shards = append(f.Shards, s)
	}
	return f
}

func (f *Facts) NodeName(ordinal int) string { return f.Groups[0].NodeName(ordinal) }

func (f *Facts) pod(ordinal int) *Pod { return f.Groups[0].pod(ordinal) }

func (f *Facts) claim(ordinal int) *Claim { return f.Groups[0].claim(ordinal) }

func folder(n int) string { return fmt.Sprintf("%032x", n+1) }

// dead makes a node dead, its pod too.
func (f *Facts) dead(ordinal int) {
	node := f.NodeName(ordinal)
	state := f.State.Nodes[node]
	state.DeadSinceMs = 1
	f.State.Nodes[node] = state
	pod := f.pod(ordinal)
	pod.Ready, pod.Running = false, false
	for i := range f.Shards {
		for j := range f.Shards[i].Members {
			if m := &f.Shards[i].Members[j]; m.Node == node {
				m.Active = false
				if f.Shards[i].Leader == node {
					f.Shards[i].Leader = f.Shards[i].Members[(j+1)%2].Node
				}
			}
		}
	}
}

// endsWithVolume lets the pod of a node that runs end while its claim is being deleted.
func (f *Facts) endsWithVolume(ordinal int) {
	f.claim(ordinal).Terminating, f.pod(ordinal).Terminating = true, true
}

func kinds(p Plan) (text []string) {
	for _, a := range p.Actions {
		text = append(text, strings.TrimSpace(fmt.Sprintf("%s %s %s", a.Kind, a.Node, a.Desired)))
	}
	return text
}

// What is decided in the situations that people ask about.
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name   string
		nodes  int
		change func(*Facts)
		want   []string
		wait   string // part of a wait
	}{
		{name: "all is well", nodes: 4},
		{name: "there is no StatefulSet", nodes: 4, change: func(f *Facts) { f.Groups[0].Replicas = -1 }, want: []string{"scale"}},
		{name: "one more", nodes: 4, change: func(f *Facts) { f.Groups[0].Count = 5 }, want: []string{"scale"}},
		{name: "one less", nodes: 5, change: func(f *Facts) { f.Groups[0].Count = 4 }, want: []string{"desire demo-node-4 draining"}},
		{name: "one less while another one is down", nodes: 5, change: func(f *Facts) { f.Groups[0].Count = 4; f.dead(0) }, wait: "demo-node-0 is down"},
		{name: "the one that is down", nodes: 5, change: func(f *Facts) { f.Groups[0].Count = 4; f.dead(4) }, want: []string{"desire demo-node-4 draining"}},
		{name: "etcd is away", nodes: 5, change: func(f *Facts) { f.Groups[0].Count, f.StoreErr = 4, shardmap.ErrUnavailable }, wait: "etcd does not answer"},
		{name: "a new template", nodes: 4, change: func(f *Facts) { outdate(f) }, want: []string{"delete pod demo-node-3"}},
		{name: "a new template, one pod is not ready", nodes: 4, change: func(f *Facts) { outdate(f); f.pod(0).Ready = false }, want: []string{"delete pod demo-node-0"}},
		{name: "a new template, one does not come back from it", nodes: 4, change: func(f *Facts) {
			outdate(f)
			f.pod(3).Outdated = false
			f.dead(3)
		}, wait: "demo-node-3 is not ready after its restart"},
		{name: "a new template, one of the old ones does not run", nodes: 4, change: func(f *Facts) { outdate(f); f.dead(1) }, want: []string{"delete pod demo-node-1"}},
		{name: "a new template, a copy lags", nodes: 3, change: func(f *Facts) {
			outdate(f)
			for i := range f.Shards {
				f.Shards[i].Members[1].MatchIndex = 0
			}
		}, wait: "have not caught up"},
		{name: "a new template, the restarted node is ready and has not caught up", nodes: 4, change: func(f *Facts) {
			outdate(f)
			f.pod(3).Outdated = false
			f.Shards[2].Members[1].MatchIndex = f.Shards[2].CommitIndex - LagEntriesMax - 1
		}, wait: "1 shards of demo-node-3 have not caught up, the first is 2"},
		{name: "a new template, the restarted node has all but the last entries", nodes: 4, change: func(f *Facts) {
			outdate(f)
			f.pod(3).Outdated = false
			f.Shards[2].Members[1].MatchIndex = f.Shards[2].CommitIndex - LagEntriesMax
		}, want: []string{"delete pod demo-node-2"}},
		{name: "a new template, the one that has not caught up is restarted itself", nodes: 4, change: func(f *Facts) {
			outdate(f)
			f.Shards[2].Members[1].MatchIndex = 0
		}, want: []string{"delete pod demo-node-3"}},
		{name: "a new template outside the window", nodes: 4, change: func(f *Facts) { outdate(f); f.Closed = true }},
		{name: "a new template outside the window, one does not run", nodes: 4, change: func(f *Facts) { outdate(f); f.Closed = true; f.dead(1) }, want: []string{"delete pod demo-node-1"}},
		{name: "a new template outside the window, a person asks for a restart", nodes: 4, change: func(f *Facts) {
			outdate(f)
			f.Closed, f.pod(2).Asked = true, true
		}, want: []string{"delete pod demo-node-2"}},
		{name: "one less outside the window", nodes: 5, change: func(f *Facts) { outdate(f); f.Closed, f.Groups[0].Count = true, 4 }, want: []string{"desire demo-node-4 draining"}},
		{name: "a new template, no router answers", nodes: 4, change: func(f *Facts) { outdate(f); f.Shards = nil }, wait: "no router answers"},
		{name: "a new template while a pod ends", nodes: 4, change: func(f *Facts) { outdate(f); f.pod(2).Terminating = true }, wait: "its pod is ending"},
		{name: "a machine is off, not for long", nodes: 3, change: func(f *Facts) { f.dead(1); f.Machines["m1"] = Machine{NotReadySinceMs: f.NowMs - 1000} }},
		{name: "a machine is off for long", nodes: 3, change: func(f *Facts) {
			f.dead(1)
			f.Machines["m1"] = Machine{NotReadySinceMs: f.NowMs - f.Limits.ReplaceAfterMs}
		}, want: []string{"mark claim demo-node-1"}},
		{name: "a machine is out of service", nodes: 3, change: func(f *Facts) {
			f.dead(1)
			f.Machines["m1"] = Machine{NotReadySinceMs: f.NowMs, OutOfService: true}
			f.Groups[0].Claims[1].GivenUp = true
		}, want: []string{"retire demo-node-1"}},
		{name: "a machine is gone, its folder is retired", nodes: 3, change: func(f *Facts) {
			f.dead(1)
			delete(f.Machines, "m1")
			f.Groups[0].Claims[1].GivenUp = true
			f.State.Incarnations["demo-node-1"][0].Retired = true
		}, want: []string{"delete claim demo-node-1", "delete pod demo-node-1"}},
		{name: "a machine is gone, and another node is down", nodes: 3, change: func(f *Facts) {
			f.dead(1)
			f.dead(2)
			delete(f.Machines, "m1")
		}},
		{name: "a claim is being deleted under its pod", nodes: 3, change: func(f *Facts) { f.claim(1).Terminating = true },
			want: []string{"delete pod demo-node-1"}},
		{name: "two claims are being deleted", nodes: 3, change: func(f *Facts) { f.claim(1).Terminating, f.claim(2).Terminating = true, true },
			want: []string{"delete pod demo-node-1"}, wait: "demo-node-2 its volume claim"},
		{name: "a claim is being deleted, and another node is not ready", nodes: 4, change: func(f *Facts) {
			f.claim(1).Terminating, f.pod(2).Ready = true, false
		}, wait: "demo-node-2 is not ready"},
		{name: "a claim is being deleted, and another copy lags", nodes: 3, change: func(f *Facts) {
			f.claim(1).Terminating = true
			for shard := range f.Shards {
				f.Shards[shard].CommitIndex += 1 << 20
			}
		}},
		{name: "a machine is off for long while another node ends with its volume", nodes: 3, change: func(f *Facts) {
			f.dead(1)
			f.Machines["m1"] = Machine{NotReadySinceMs: f.NowMs - f.Limits.ReplaceAfterMs}
			f.endsWithVolume(2)
		}},
		{name: "a node that ends with its volume is wanted again", nodes: 4, change: func(f *Facts) {
			f.endsWithVolume(2)
			f.State.Desired["demo-node-2"] = shardmap.Draining
		}},
		{name: "a node that ends, and keeps its volume, is wanted again", nodes: 4, change: func(f *Facts) {
			f.pod(2).Terminating = true
			f.State.Desired["demo-node-2"] = shardmap.Draining
		}, want: []string{"desire demo-node-2 active"}},
		{name: "a drain by name while a node ends with its volume", nodes: 4, change: func(f *Facts) {
			f.endsWithVolume(2)
			f.Want.Drained["demo-node-0"] = true
		}, wait: "demo-node-2 is ending with its volume"},
		{name: "one less while a node ends with its volume", nodes: 5, change: func(f *Facts) {
			f.endsWithVolume(2)
			f.Groups[0].Count = 4
		}, wait: "demo-node-2 is ending with its volume"},
		{name: "a drain by name while only a claim is being deleted", nodes: 4, change: func(f *Facts) {
			f.claim(2).Terminating = true
			f.Want.Drained["demo-node-0"] = true
		}, want: []string{"desire demo-node-0 draining"}},
		{name: "a machine looks gone, but its node holds its lease", nodes: 3, change: func(f *Facts) { delete(f.Machines, "m1") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := scene(c.nodes)
			if c.change != nil {
				c.change(&f)
			}
			plan := Decide(f)
			if got := kinds(plan); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q: %+v", got, c.want, plan)
			}
			if c.wait != "" && !slices.ContainsFunc(plan.Waits, func(w Wait) bool { return strings.Contains(w.Node+" "+w.Why, c.wait) }) {
				t.Errorf("waits %+v, want %q", plan.Waits, c.wait)
			}
		})
	}
}

func outdate(f *Facts) {
	for i := range f.Groups[0].Pods {
		f.Groups[0].Pods[i].Outdated = true
	}
}

// Groups are restarted one node at a time, the last group first, and one that is added keeps nothing from
// going on.
func TestDecideForGroups(t *testing.T) {
	arm := func(f *Facts) *Group { return &f.Groups[1] }
	for _, c := range []struct {
		name   string
		change func(*Facts)
		want   []string
	}{
		{"a group that has no StatefulSet yet", func(f *Facts) { *arm(f) = Group{Name: "demo-node-arm", Count: 2, Replicas: -1} }, []string{"scale demo-node-arm 0"}},
		{"it has volumes of an earlier one", func(f *Facts) {
			*arm(f) = Group{Name: "demo-node-arm", Count: 2, Replicas: -1, Claims: []Claim{{Name: "data-demo-node-arm-0", UID: "x"}}}
		}, []string{"scale demo-node-arm 0"}},
		{"it is added while others are outdated", func(f *Facts) {
			*arm(f) = Group{Name: "demo-node-arm", Count: 2, Replicas: -1}
			outdate(f)
		}, []string{"scale demo-node-arm 0", "delete pod demo-node-3"}},
		{"its StatefulSet is made anew, and its pods are there", func(f *Facts) { arm(f).Replicas = -1; outdate(f) }, []string{"scale demo-node-arm 1"}},
		{"it grows", func(f *Facts) { arm(f).Count = 3 }, []string{"scale demo-node-arm 3"}},
		{"it is not asked for any more", func(f *Facts) { arm(f).Count, arm(f).Leaves = 0, true }, []string{"desire demo-node-arm-0 draining"}},
		{"it is empty", func(f *Facts) { *arm(f) = Group{Name: "demo-node-arm", Leaves: true} }, []string{"remove set demo-node-arm 0"}},
		{"only a volume of it is left", func(f *Facts) {
			*arm(f) = Group{Name: "demo-node-arm", Leaves: true, Replicas: -1, Claims: []Claim{{Name: "data-demo-node-arm-0", UID: "x"}}}
		}, nil},
		{"it has none, and is asked for", func(f *Facts) { *arm(f) = Group{Name: "demo-node-arm"} }, nil},
		{"all are outdated", func(f *Facts) { outdate(f); arm(f).Pods[0].Outdated = true }, []string{"delete pod demo-node-arm-0"}},
		{"all are outdated, and one of another group is not ready", func(f *Facts) {
			outdate(f)
			arm(f).Pods[0].Outdated = true
			f.pod(1).Outdated, f.pod(1).Ready = false, false
		}, nil},
		{"one is drained by its name", func(f *Facts) { f.Want.Drained["demo-node-arm-0"] = true }, []string{"desire demo-node-arm-0 draining"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := scene(4)
			f.Groups = append(f.Groups, Group{
				Name: "demo-node-arm", Count: 1, Replicas: 1,
				Pods:   []Pod{{UID: "q0", Machine: "m0", Running: true, Ready: true}},
				Claims: []Claim{{Name: "data-demo-node-arm-0", UID: "d0", Machine: "m0"}},
			})
			f.State.Nodes["demo-node-arm-0"] = shardmap.NodeState{NodeInfo: shardmap.NodeInfo{ID: "demo-node-arm-0", Incarnation: folder(50)}}
			f.State.Incarnations["demo-node-arm-0"] = []shardmap.Incarnation{{ID: folder(50)}}
			c.change(&f)
			if len(arm(&f).Pods) == 0 {
				delete(f.State.Nodes, "demo-node-arm-0")
				delete(f.State.Incarnations, "demo-node-arm-0")
			}
			plan := Decide(f)
			var got []string
			for _, a := range plan.Actions {
				text := fmt.Sprintf("%s %s%s %s", a.Kind, a.Group, a.Node, a.Desired)
				if a.Group != "" {
					text += fmt.Sprint(a.Replicas)
				}
				got = append(got, strings.TrimSpace(text))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q: %+v", got, c.want, plan)
			}
		})
	}
}

// A scale-in is refused for witnesses as it is for copies.
func TestRefusals(t *testing.T) {
	f := scene(3)
	f.Groups[0].Count = 2
	plan := Decide(f)
	if len(plan.Actions) != 0 || len(plan.Refusals) != 1 || !plan.Refusals[0].Scale || !errors.Is(plan.Refusals[0].Err, shardmap.ErrDrainCopies) {
		t.Fatalf("%+v", plan)
	}
	f = scene(4)
	f.Want.Drained["demo-node-0"], f.Want.Drained["demo-node-1"], f.Want.Drained["else"] = true, true, true
	plan = Decide(f)
	if !slices.Equal(plan.Unknown, []string{"else"}) {
		t.Fatalf("%+v", plan.Unknown)
	}
	if got := kinds(plan); !slices.Equal(got, []string{"desire demo-node-0 draining"}) || len(plan.Refusals) != 1 || plan.Refusals[0].Nodes[0] != "demo-node-1" {
		t.Fatalf("%q %+v", got, plan)
	}
}

// A loss says which shards wait for it.
func TestLoss(t *testing.T) {
	f := scene(3)
	f.dead(1)
	f.dead(2)
	delete(f.Machines, "m1")
	plan := Decide(f)
	if len(plan.Losses) != 1 || plan.Losses[0].Machine != "m1" || len(plan.Losses[0].Shards) != 3 || plan.Losses[0].Named != 3 {
		t.Fatalf("%+v", plan.Losses)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{16, 128, 1024} {
		b.Run(fmt.Sprintf("shards=%d", n), func(b *testing.B) {
			f := scene(5)
			rows, shards := f.State.Map.Rows, f.Shards
			for len(f.State.Map.Rows) < n {
				f.State.Map.Rows, f.Shards = append(f.State.Map.Rows, rows...), append(f.Shards, shards...)
			}
			b.Run("quiet", func(b *testing.B) {
				for b.Loop() {
					Decide(f)
				}
			})
			outdate(&f)
			b.Run("update", func(b *testing.B) {
				for b.Loop() {
					Decide(f)
				}
			})
			f.Groups[0].Count = 4
			b.Run("drain", func(b *testing.B) {
				for b.Loop() {
					Decide(f)
				}
			})
		})
	}
}
