package scale

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
)

// Case is a size of cluster.
type Case struct{ Nodes, Shards, Copies int }

// zones is how many zones the nodes are spread over.
const zones = 3

// Bounds of a case: copies on a node, as a data folder takes no more shards, and copies in all, of which
// more take the planner minutes.
const (
	nodeCopiesMax = manifest.ShardsMax
	copiesMax     = 1 << 16
)

// Cases returns the sizes of the page, or the small ones of them.
func Cases(short bool) (cases []Case) {
	nodes, shards := []int{10, 100, 1000}, []int{128, 1024, 8192, 65536}
	if short {
		nodes, shards = nodes[:2], shards[:2]
	}
	for _, n := range nodes {
		for _, s := range shards {
			for _, copies := range []int{1, zones} {
				if s*copies/n <= nodeCopiesMax && s*copies <= copiesMax {
					cases = append(cases, Case{n, s, copies})
				}
			}
		}
	}
	return cases
}

// Change is what one event makes the planner do, until nothing is left to do.
type Change struct {
	Plan  time.Duration // of processors: the first plan, with all moves that are wanted
	Bytes uint64        // that this plan allocated
	Moves int           // replicas that were built, until nothing was left to do
	Least int           // that any placement has to build
	Loads Loads         // afterwards
	Lost  int           // shards without a live majority
}

// Loads are rows of the fullest and of the emptiest live node.
type Loads struct{ Most, Least int }

// Placement is what the planner does with a case.
type Placement struct {
	Case
	Create, Grow, LoseNode, LoseZone Change
	Leads                            Loads         // of leaders, once they are evened out
	LeadPlan                         time.Duration // to find the transfers for that
	MapBytes                         int           // encoded, when all is at rest
	MapBytesMoving                   int           // with MovesMaxDefault rows on their way
	Encode, Decode                   time.Duration
	Refused                          error // by the codec; nil: the product takes this map

	Map   shardmap.Map // as created
	State shardmap.State
}

// nodeName is that of a pod of a StatefulSet.
func nodeName(i int) string { return fmt.Sprintf("tickmesh-node-%d", i) }

// randomDigits returns 32 digits that look drawn, as those of folders and clusters do.
func randomDigits(of string) string {
	digest := sha256.Sum256([]byte(of))
	return hex.EncodeToString(digest[:shardmap.IncarnationBytes/2])
}

// infoOf describes a node as it does itself.
func infoOf(i int) shardmap.NodeInfo {
	id := nodeName(i)
	return shardmap.NodeInfo{
		ID: id, Incarnation: randomDigits(id), RPCAddress: id + ".tickmesh-nodes.monitoring.svc:4245", Zone: fmt.Sprintf("europe-west1-%c", 'a'+i%zones),
		CapacityBytes: 1 << 40, UsedBytes: 1 << 38, StartedMs: 1_795_000_000_000, Version: "v1.2.3", ClusterID: randomDigits("cluster"), Epoch: 1 << 20,
	}
}

func newState(nodes int) shardmap.State {
	s := shardmap.State{Nodes: map[string]shardmap.NodeState{}, Incarnations: map[string][]shardmap.Incarnation{}, NowMs: 1}
	for i := range nodes {
		start(&s, i)
	}
	return s
}

func start(s *shardmap.State, i int) {
	info := infoOf(i)
	s.Nodes[info.ID] = shardmap.NodeState{NodeInfo: info}
	s.Incarnations[info.ID] = []shardmap.Incarnation{{ID: info.Incarnation}}
}

// without returns the state in which the nodes that are chosen have been dead for longer than they are waited for.
func without(s shardmap.State, l shardmap.Limits, dead func(i int) bool) shardmap.State {
	nodes := map[string]shardmap.NodeState{}
	for i := range len(s.Nodes) {
		node := s.Nodes[nodeName(i)]
		if dead(i) {
			node.DeadSinceMs = s.NowMs
		}
		nodes[node.ID] = node
	}
	s.Nodes = nodes
	s.NowMs += l.ReplaceAfterMs + 1
	return s
}

func limits(c Case) shardmap.Limits {
	l := shardmap.DefaultLimits()
	l.MovesMax = c.Shards // all that is wanted, in one plan
	l.Create = shardmap.Creation{Cluster: "tickmesh", ID: randomDigits("cluster"), InitialNodes: c.Nodes,
		Settings: shardmap.Settings{Shards: c.Shards, Replication: c.Copies, ShardKey: randomDigits("key")}}
	return l
}

// measured returns the processor time that do takes, and what it allocates.
func measured(do func()) (time.Duration, uint64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := processorTime()
	do()
	took := processorTime() - began
	runtime.ReadMemStats(&after)
	return took, after.TotalAlloc - before.TotalAlloc
}

// processorTime returns what this process has taken of processors, which does not depend on what else runs.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it fails for no process of its own
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Place has the planner place and move a case, and checks each result.
func Place(c Case) (*Placement, error) {
	l := limits(c)
	p := &Placement{Case: c, State: newState(c.Nodes)}
	p.Create.Plan, p.Create.Bytes = measured(func() { p.Map = shardmap.NewMap(p.State, l) })
	p.State.Map = &p.Map
	p.Create.Loads = loadsOf(&p.Map, p.State)
	if err := checkPlaced(&p.Map, p.State, c.Copies); err != nil {
		return nil, fmt.Errorf("created: %w", err)
	}
	if err := p.encode(l); err != nil {
		return nil, err
	}
	p.leads()
	grown := p.State
	grown.Nodes, grown.Incarnations = newState(c.Nodes).Nodes, newState(c.Nodes).Incarnations
	start(&grown, c.Nodes)
	for _, event := range []struct {
		name  string
		state shardmap.State
		to    *Change
		least int
	}{
		{"one node more", grown, &p.Grow, leastGrown(c)},
		{"a node lost", without(p.State, l, func(i int) bool { return i == 0 }), &p.LoseNode, -1},
		{"a zone lost", without(p.State, l, func(i int) bool { return i%zones == 0 }), &p.LoseZone, -1},
	} {
		if err := event.to.play(event.state, l, event.least); err != nil {
			return nil, fmt.Errorf("%s: %w", event.name, err)
		}
	}
	return p, nil
}

// play plans until nothing is left to do, and carries each step out at once. Least is what has to be built; -1:
// what the dead held of shards that can be mended.
func (f *Change) play(s shardmap.State, l shardmap.Limits, least int) error {
	m := s.Map.Clone()
	before := s.Map
	s.Map = &m
	const plansMax = 16
	for plans := 0; ; plans++ {
		var steps []shardmap.Step
		took, bytes := measured(func() { steps = shardmap.Plan(s, l) })
		if plans == 0 {
			f.Plan, f.Bytes = took, bytes
		}
		if len(steps) == 0 {
			break
		}
		if plans == plansMax {
			return fmt.Errorf("%d steps are left after %d plans", len(steps), plans)
		}
		for _, step := range steps {
			if step.Kind == shardmap.StepIntend {
				row := m.Rows[step.Shard].WithIntended(step.Intended)
				m.Rows[step.Shard], _ = row.Published(row.Intended)
			}
		}
	}
	f.Loads = loadsOf(&m, s)
	f.Moves = built(before, &m)
	f.Least, f.Lost = leastMended(before, s)
	if least >= 0 {
		f.Least = least
	}
	return checkMoved(before, &m, s, l.Create.Settings.Replication)
}

// leads evens leaders out that all are on the first member of their rows.
func (p *Placement) leads() {
	leaders := map[uint16]string{}
	for shard := range p.Map.Rows {
		leaders[uint16(shard)] = p.Map.Rows[shard].Members[0].Node
	}
	var transfers []shardmap.Transfer
	p.LeadPlan, _ = measured(func() { transfers = shardmap.LeaderTransfers(p.State, shardmap.Leaders{ByShard: leaders}, p.Shards) })
	for _, t := range transfers {
		leaders[t.Shard] = t.To
	}
	counts := map[string]int{}
	for _, node := range leaders {
		counts[node]++
	}
	p.Leads = spreadOf(counts, p.State)
}
