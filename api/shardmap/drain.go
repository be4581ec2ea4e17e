package shardmap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Errors of a drain that is refused. A *DrainError wraps one of them.
var (
	ErrDrainNode   = errors.New("no such node")                             // it is not known
	ErrDrainCopies = errors.New("there is no other place for its copies")   // shards would have fewer copies, or could not leave
	ErrDrainSpace  = errors.New("the other nodes have too little space")    // a node would be fuller than UsedShareMax
	ErrDrainStuck  = errors.New("the shards' groups cannot change members") // a majority, or who has the data, is not live
	// ErrDrainWitness: with two copies and no witness a shard stands still when a node is lost.
	ErrDrainWitness = errors.New("there is no other place for its witnesses, without which no node may be lost")
)

// DrainError describes why a drain is refused.
type DrainError struct {
	Kind   error // one of the errors above
	Nodes  []string
	Shards []uint16 // those concerned, if any
}

// Error implements error.
func (e *DrainError) Error() string {
	text := fmt.Sprintf("drain %s: %v", strings.Join(e.Nodes, ", "), e.Kind)
	if len(e.Shards) > 0 {
		text += fmt.Sprintf(" (%d shards: %s)", len(e.Shards), shardsText(e.Shards))
	}
	for _, kind := range []error{ErrDrainCopies, ErrDrainWitness, ErrDrainSpace} {
		if errors.Is(e.Kind, kind) {
			return text + "; another node has to join first"
		}
	}
	return text
}

// Unwrap returns the kind.
func (e *DrainError) Unwrap() error { return e.Kind }

const shardsShown = 8

// shardsText names the first of some shards.
func shardsText(shards []uint16) string {
	text := strings.Trim(fmt.Sprint(shards[:min(len(shards), shardsShown)]), "[]")
	if len(shards) > shardsShown {
		text += " …"
	}
	return text
}

// Move is a replica that is to be built.
type Move struct {
	Shard  uint16
	Member Member
	Bytes  int64 // to be copied; a witness has none
}

// Forecast is what placement would do until nothing is left to do.
type Forecast struct {
	Moves           []Move
	Bytes           int64 // of all moves
	Seconds         int64 // at the rates that were given; 0: not told
	WithoutWitness  int   // shards that will have no witness though replication is 2
	UnderReplicated int   // shards that will have fewer full voters than replication
	Result          Map   // the map at the end
}

// Rates say what a forecast counts with.
type Rates struct {
	ShardBytes []int64 // by shard; missing ones count as empty
	// BytesPerSecond is what one node takes in, and what one sends. 0: Seconds is not told.
	BytesPerSecond int64
	// MoveMs is what a move takes besides its bytes; Limits.MovesMax are made at a time.
	MoveMs int64
	// Arrived returns the bytes of a copy of a shard that a node has already; nil: none.
	Arrived func(shard uint16, node string) int64
}

// left returns the bytes of a move that have yet to come.
func (r *Rates) left(m *Move) int64 {
	if r.Arrived == nil {
		return m.Bytes
	}
	return m.Bytes - min(r.Arrived(m.Shard, m.Member.Node), m.Bytes)
}

// seconds returns what moves take: the node that takes in most decides, or, where few nodes
// have what many get, the senders.
func (r *Rates) seconds(moves []Move, senders, movesMax int) int64 {
	if r.BytesPerSecond <= 0 || len(moves) == 0 {
		return 0
	}
	taken, all, most := map[string]int64{}, int64(0), int64(0)
	for i := range moves {
		m := &moves[i]
		taken[m.Member.Node] += r.left(m)
		all += r.left(m)
		most = max(most, taken[m.Member.Node])
	}
	most = max(most, all/int64(max(senders, 1)))
	ms := int64(len(moves)) * r.MoveMs / int64(max(movesMax, 1))
	return (most+r.BytesPerSecond-1)/r.BytesPerSecond + (ms+999)/1000
}

// Simulate forecasts what placement does from a state, if nothing else happens: every
// group that can change reaches what is intended. The state's map must be there.
//
// It makes all steps of a plan, which are Limits.MovesMax moves at most, before it plans
// again, where the loop plans after each. How many copies and witnesses nodes end with comes
// out the same; which of several equal shards is moved, and to which of several equal
// nodes, may not, and seldom there is a move more or less.
func Simulate(s State, l Limits, r Rates) Forecast {
	m := s.Map.Clone()
	s.Map = &m
	var f Forecast
	senders := s.holders()
	p := newNodeSet(&s, &l)
	for budget := simulationSteps * len(m.Rows); budget > 0; {
		t := newTargets(&m, p)
		t.compute(true)
		steps := t.steps(l.MovesMax)
		for _, step := range steps {
			row := &m.Rows[step.Shard]
			*row = row.WithIntended(step.Intended)
		}
		reached := f.reach(&m, t, r)
		if !reached && len(steps) == 0 {
			break
		}
		budget -= max(len(steps), 1)
	}
	f.Result = m
	for _, row := range m.Rows {
		f.count(row, m.Settings.Replication)
	}
	f.Seconds = r.seconds(f.Moves, senders, l.MovesMax)
	return f
}

// reach brings every group that can reach what is intended there, and reports whether one did.
func (f *Forecast) reach(m *Map, t *targets, r Rates) bool {
	reached := false
	for shard, row := range m.Rows {
		if row.Intended == nil || !t.able(&row) || slices.ContainsFunc(row.Intended, func(m Member) bool { return !isMember(row, m) && !t.live(m) }) {
			continue
		}
		f.add(uint16(shard), row, r)
		m.Rows[shard], _ = row.Published(row.Intended)
		reached = true
	}
	return reached
}

// holders counts the live nodes that have data.
func (s *State) holders() int {
	have := map[string]bool{}
	for _, row := range s.Map.Rows {
		for _, m := range row.Members {
			if node, known := s.Nodes[m.Node]; m.Role == Full && known && node.DeadSinceMs == 0 {
				have[m.Node] = true
			}
		}
	}
	return len(have)
}

// simulationSteps bounds the steps of each row on its way.
const simulationSteps = 16

func isMember(row Row, m Member) bool {
	return slices.ContainsFunc(row.Members, func(is Member) bool { return is.SameReplica(m) && is.Role.Votes() })
}

func (f *Forecast) add(shard uint16, row Row, r Rates) {
	for _, m := range row.Intended {
		if isMember(row, m) {
			continue
		}
		move := Move{Shard: shard, Member: m}
		if m.Role == Full && int(shard) < len(r.ShardBytes) {
			move.Bytes = r.ShardBytes[shard]
		}
		f.Moves = append(f.Moves, move)
		f.Bytes += move.Bytes
	}
}

func (f *Forecast) count(row Row, replication int) {
	fulls, witnesses := 0, 0
	for _, m := range row.Members {
		fulls += oneIf(m.Role == Full)
		witnesses += oneIf(m.Role == Witness)
	}
	f.UnderReplicated += oneIf(fulls < replication)
	f.WithoutWitness += oneIf(replication == 2 && witnesses == 0)
}

// CheckDrain forecasts a drain of nodes, and refuses one that would lose copies,
// witnesses or space. Errors: *DrainError.
func CheckDrain(s State, l Limits, r Rates, nodes ...string) (Forecast, error) {
	if s.Map == nil {
		return Forecast{}, &DrainError{Kind: ErrDrainNode, Nodes: nodes}
	}
	known := nodesOf(&s)
	desired := maps.Clone(s.Desired)
	if desired == nil {
		desired = map[string]Desired{}
	}
	for _, node := range nodes {
		if !known[node] {
			return Forecast{}, &DrainError{Kind: ErrDrainNode, Nodes: []string{node}}
		}
		desired[node] = Draining
	}
	before := s.Map
	s.Desired = desired
	f := Simulate(s, l, r)
	var left, stuck, bare []uint16
	p := newNodeSet(&s, &l)
	t := &targets{nodeSet: p}
	for shard, row := range f.Result.Rows {
		on := slices.ContainsFunc(row.Members, func(m Member) bool { return slices.Contains(nodes, m.Node) })
		switch {
		case !on && fullsOf(row) >= min(fullsOf(before.Rows[shard]), before.Settings.Replication):
			if had := before.Rows[shard]; before.Settings.Replication == 2 && !hasWitness(row.Members) && (hasWitness(had.Members) || hasWitness(had.Intended)) {
				bare = append(bare, uint16(shard))
			}
		case !t.able(&before.Rows[shard]):
			stuck = append(stuck, uint16(shard))
		default:
			left = append(left, uint16(shard))
		}
	}
	switch {
	case len(stuck) > 0:
		return f, &DrainError{ErrDrainStuck, nodes, stuck}
	case len(left) > 0:
		return f, &DrainError{ErrDrainCopies, nodes, left}
	case len(bare) > 0:
		return f, &DrainError{ErrDrainWitness, nodes, bare}
	}
	if full := overfilled(s, l, f); len(full) > 0 {
		return f, &DrainError{ErrDrainSpace, full, nil}
	}
	return f, nil
}

func fullsOf(row Row) int {
	fulls := 0
	for _, m := range row.Members {
		fulls += oneIf(m.Role == Full)
	}
	return fulls
}

func hasWitness(members []Member) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.Role == Witness })
}

// overfilled returns the nodes that would be fuller than allowed. What leaves a node is
// not counted: it is deleted later than the new data comes.
func overfilled(s State, l Limits, f Forecast) []string {
	gained := map[string]int64{}
	for _, move := range f.Moves {
		gained[move.Member.Node] += move.Bytes
	}
	var full []string
	for _, id := range slices.Sorted(maps.Keys(gained)) {
		info := s.Nodes[id].NodeInfo
		info.UsedBytes += gained[id]
		if gained[id] > 0 && overfull(info, l.UsedShareMax) {
			full = append(full, id)
		}
	}
	return full
}
