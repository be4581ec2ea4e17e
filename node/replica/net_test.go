package replica

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// world is some nodes with a disk each, a network that loses and reorders, and an
// oracle that knows what was promised. It is driven by one generator, and so are the
// Hosts: a seed has one history.
type world struct {
	t     testing.TB
	rng   *rand.Rand
	nodes []*testNode
	net   []packet
	cut   map[[2]string]bool // from, to
	now   int
	loss  float64 // of packets
	slow  int     // ticks between two looks of a node at what came; 0: it looks at once
	rows  map[uint16]shardmap.Row

	content map[place]string // committed, first seen
	leader  map[epoch]uint64 // by shard and term
	acked   map[uint16]uint64
	ackedAt map[place]uint64 // token
	readMin map[uint64]uint64
	tokens  uint64
	spent   map[uint64]int // outcomes of tokens
	trace   uint64
	acks    int
	reads   int
	images  int
	placing bool
	healed  bool      // no more faults
	idle    *testNode // does not say what it has applied
	faulty  *testNode // its replicas may stop
}

type place struct {
	shard uint16
	index uint64
}

type epoch struct {
	shard uint16
	term  uint64
}

type packet struct {
	from, to string
	bytes    []byte
	at       int
}

// testNode is a node; disk and engine survive a restart as far as they were written.
type testNode struct {
	name    string
	host    *Host
	round   Round
	waiting bool // round is not written yet
	starts  uint64
	up      bool
	disk    map[uint16]*testDisk
	engine  map[uint16]*testEngine
	files   map[uint16]*testFiles   // fetched
	seen    map[uint16]shardmap.Row // of the map
	gone    map[uint16]uint64       // the largest raft id that was removed here
	late    *lateSync               // nil: states are synced with their Round
	lent    [2][][]byte             // parts of proposals: of before the last Ready, and since
}

// reuse overwrites what was proposed before the last Ready, as a driver does that uses
// its memory again.
func (n *testNode) reuse() {
	for i := range n.lent[0] {
		clear(n.lent[0][i])
	}
	n.lent[0] = nil
}

type testDisk struct {
	state   GroupState
	entries map[uint64]Entry
	last    uint64
}

type testFiles struct {
	meta   SnapshotMeta
	engine testEngine
}

type testEngine struct {
	applied uint64
	durable uint64
	data    map[uint64]string
}

func newWorld(t testing.TB, seed uint64, nodes int) *world { return makeWorld(t, seed, nodes, false) }

// newLateWorld makes a world whose states are synced late.
func newLateWorld(t testing.TB, seed uint64, nodes int) *world {
	return makeWorld(t, seed, nodes, true)
}

func makeWorld(t testing.TB, seed uint64, nodes int, late bool) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), cut: map[[2]string]bool{}, rows: map[uint16]shardmap.Row{},
		content: map[place]string{}, leader: map[epoch]uint64{}, acked: map[uint16]uint64{}, ackedAt: map[place]uint64{},
		readMin: map[uint64]uint64{}, spent: map[uint64]int{}}
	for i := range nodes {
		n := &testNode{name: fmt.Sprintf("n%d", i), disk: map[uint16]*testDisk{}, engine: map[uint16]*testEngine{},
			files: map[uint16]*testFiles{}, seen: map[uint16]shardmap.Row{}, gone: map[uint16]uint64{}}
		if late {
			n.late = &lateSync{before: map[uint16]*testDisk{}}
		}
		w.nodes = append(w.nodes, n)
		w.start(n)
	}
	return w
}

func (n *testNode) Entries(shard uint16, lo, hi uint64, bytesMax int) ([]Entry, error) {
	var out []Entry
	size := 0
	for i := lo; i < hi; i++ {
		e, ok := n.disk[shard].entries[i]
		if !ok {
			return nil, fmt.Errorf("no entry %d", i)
		}
		if size += len(e.Body); len(out) > 0 && size > bytesMax {
			break
		}
		out = append(out, e)
	}
	return out, nil
}

func (w *world) start(n *testNode) {
	n.starts++
	host, err := New(Config{Node: n.name, Incarnation: "i", Run: n.starts, Seed: w.rng.Uint64(), SyncLater: n.late != nil,
		HibernateTicks: 6, MessageBytesMax: 256, InflightBytesMax: 1024, CacheBytesMax: 1024, ApplyBytesMax: 512}, n)
	if err != nil {
		w.t.Fatal(err)
	}
	n.host, n.up, n.waiting = host, true, false
	for _, shard := range sortedShards(n.disk) {
		d, e := n.disk[shard], n.engine[shard]
		// The engine comes back as of some checkpoint, or with all it had.
		if w.rng.IntN(2) == 0 {
			e.applied = e.durable
			for i := range e.data {
				if i > e.applied {
					delete(e.data, i)
				}
			}
		}
		log := LogSummary{Last: d.last, Applied: e.applied}
		for i := d.state.Truncated.Index + 1; i <= d.last; i++ {
			entry, ok := d.entries[i]
			if !ok {
				w.t.Fatalf("%s lost entry %d of shard %d", n.name, i, shard)
			}
			if k := len(log.Runs); k == 0 || log.Runs[k-1].Term != entry.Term {
				log.Runs = append(log.Runs, TermRun{i, entry.Term})
			}
			if entry.Kind == KindChange {
				log.Changes = append(log.Changes, i)
			}
		}
		if err := host.Restore(d.state, log); err != nil {
			w.t.Fatalf("%s: restore of shard %d: %v", n.name, shard, err)
		}
	}
	w.refound(n)
}

// refound makes replicas of fresh groups again whose creation was never written.
func (w *world) refound(n *testNode) {
	for _, shard := range sortedShards(w.rows) {
		row := w.rows[shard]
		for _, m := range row.Members {
			if row.Fresh && m.Node == n.name && n.host.group(shard) == nil {
				if err := n.host.Create(Replica{Shard: shard, RaftID: m.RaftID, Era: 1, Role: m.Role}, row.Members); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
}

func sortedShards[V any](m map[uint16]V) []uint16 {
	var out []uint16
	for shard := range m {
		out = append(out, shard)
	}
	slices.Sort(out)
	return out
}

// crash stops n; a part of the Round under way may be on its disk.
func (w *world) crash(n *testNode) {
	if n.waiting {
		records := len(n.round.States) + len(n.round.Appends)
		w.write(n, w.rng.IntN(records+1))
	}
	if n.late != nil {
		w.lose(n)
	}
	n.up, n.waiting = false, false
	clear(n.files)
}

// write puts the first records of the Round on the disk.
func (w *world) write(n *testNode, records int) {
	for i, s := range n.round.States {
		if i >= records {
			return
		}
		for _, a := range n.round.Appends {
			if a.Shard == s.Shard && s.Commit >= a.Index {
				w.t.Fatalf("%s: the state of shard %d says that %d is committed, before %d is appended", n.name, s.Shard, s.Commit, a.Index)
			}
		}
		decoded, err := ParseGroupState(s.AppendTo(nil))
		if err != nil {
			w.t.Fatal(err)
		}
		if n.late != nil {
			n.keep(s.Shard)
		}
		n.writeState(decoded)
	}
	for i, a := range n.round.Appends {
		if len(n.round.States)+i >= records {
			return
		}
		d := n.disk[a.Shard]
		if a.Index > d.last+1 || a.Index <= d.state.Truncated.Index || a.Commit > a.Index {
			w.t.Fatalf("%s appends %d (commit %d) to shard %d after %d, truncated %d", n.name, a.Index, a.Commit, a.Shard, d.last, d.state.Truncated.Index)
		}
		if g := n.host.group(a.Shard); g != nil && !g.single && a.Commit == a.Index {
			w.t.Fatalf("%s appends %d of shard %d as committed, which says that it is the only member", n.name, a.Index, a.Shard)
		}
		for j := a.Index; j <= d.last; j++ {
			delete(d.entries, j)
		}
		d.entries[a.Index] = Entry{Kind: a.Kind, Term: a.Term, Index: a.Index, Body: slices.Concat(a.Parts...)}
		d.last = a.Index
	}
}

func (n *testNode) writeState(s GroupState) {
	if s.Removed {
		delete(n.disk, s.Shard)
		delete(n.engine, s.Shard)
		if n.late != nil {
			delete(n.late.before, s.Shard) // it is synced before the data goes
		}
		return
	}
	d := n.disk[s.Shard]
	if d == nil {
		d = &testDisk{entries: map[uint64]Entry{}}
		n.disk[s.Shard], n.engine[s.Shard] = d, &testEngine{data: map[uint64]string{}}
	}
	at := s.Truncated
	if at.Index > d.state.Truncated.Index {
		if e, ok := d.entries[at.Index]; !ok || e.Term != at.Term {
			d.entries, d.last = map[uint64]Entry{}, at.Index // a snapshot
		}
		for i := range d.entries {
			if i <= at.Index {
				delete(d.entries, i)
			}
		}
	}
	d.state = s
}

// ready fetches a Round; finish writes it and does what it says.
func (w *world) ready(n *testNode) bool {
	if n.waiting {
		return false
	}
	n.lent = [2][][]byte{n.lent[1], nil}
	if !n.host.Ready(&n.round) {
		n.reuse()
		return false
	}
	n.waiting = true
	w.traceRound(n)
	for _, c := range n.round.Committed {
		if g := n.host.group(c.Shard); g == nil || g.witness() {
			w.t.Fatalf("%s: a witness of shard %d is to apply %d", n.name, c.Shard, c.Index)
		}
	}
	w.sendAll(n, n.round.Early)
	return true
}

func (w *world) finish(n *testNode) {
	w.write(n, len(n.round.States)+len(n.round.Appends))
	n.waiting = false
	n.host.Advance(&n.round)
	if n.late != nil && n.round.Sync {
		n.late.wanted = n.round.Number
	}
	w.sendAll(n, n.round.Late)
	for _, c := range n.round.Committed {
		w.apply(n, c)
	}
	for _, r := range n.round.Reads {
		w.spent[r.Token]++
		w.reads++
		if r.Index < w.readMin[r.Token] {
			w.t.Fatalf("%s: a read of shard %d may see %d, but %d was answered before it", n.name, r.Shard, r.Index, w.readMin[r.Token])
		}
	}
	for _, f := range n.round.Failed {
		w.spent[f.Token]++
	}
	for _, need := range n.round.Snapshots {
		w.install(n, need)
	}
	w.checkLeaders(n)
	for _, shard := range slices.Clone(n.round.Prepared) {
		if n.up && n.host.group(shard) != nil {
			w.swap(n, shard)
		}
	}
	n.reuse()
}

func (w *world) apply(n *testNode, c Committed) {
	e := n.engine[c.Shard]
	if e == nil {
		return // the replica was removed
	}
	content := fmt.Sprintf("%d %d %s", c.Term, c.Kind, slices.Concat(c.Parts...))
	at := place{c.Shard, c.Index}
	if known, ok := w.content[at]; ok && known != content {
		w.t.Fatalf("%s: shard %d index %d is %q, but was %q", n.name, c.Shard, c.Index, content, known)
	}
	w.content[at] = content
	if c.Index != e.applied+1 {
		w.t.Fatalf("%s: shard %d applies %d after %d", n.name, c.Shard, c.Index, e.applied)
	}
	e.applied = c.Index
	e.data[c.Index] = content
	if n != w.idle {
		n.host.Applied(c.Shard, c.Index)
	}
	if c.Token != 0 {
		w.spent[c.Token]++
		w.acked[c.Shard] = max(w.acked[c.Shard], c.Index)
		w.ackedAt[at] = c.Token
		w.acks++
		if want := fmt.Sprintf("%d %d t%d", c.Term, c.Kind, c.Token); strings.TrimRight(content, "\x00") != want {
			w.t.Fatalf("token %d came back with %q", c.Token, content)
		}
		if c.Copies < 1 {
			w.t.Fatalf("token %d with %d copies", c.Token, c.Copies)
		}
	}
}

func (w *world) checkLeaders(n *testNode) {
	held := 0
	for _, g := range n.host.groups {
		held += g.heldBytes()
	}
	if counted := n.host.HeldBytes(); held != counted {
		w.t.Fatalf("%s holds %d bytes of entries, and counts %d", n.name, held, counted)
	}
	for _, g := range n.host.groups {
		if g.fault != nil && n != w.faulty {
			w.t.Fatalf("%s: %v", n.name, g.fault)
		}
		if !g.leads() {
			continue
		}
		at := epoch{g.replica.Shard, g.term}
		if id, ok := w.leader[at]; ok && id != g.replica.RaftID {
			w.t.Fatalf("shard %d: %d and %d lead in term %d", g.replica.Shard, id, g.replica.RaftID, g.term)
		}
		w.leader[at] = g.replica.RaftID
	}
}

// install gets files from some full voter, as it is right now.
func (w *world) install(n *testNode, need SnapshotNeed) {
	for _, from := range w.rng.Perm(len(w.nodes)) {
		source := w.nodes[from]
		if source == n || !source.up || source.engine[need.Shard] == nil || source.host.group(need.Shard) == nil || source.host.group(need.Shard).witness() {
			continue
		}
		e := source.engine[need.Shard]
		meta, err := source.host.SnapshotMeta(need.Shard, e.applied)
		if err != nil || e.applied < need.Index {
			continue
		}
		meta, err = ParseSnapshotMeta(meta.AppendTo(nil))
		if err != nil {
			w.t.Fatal(err)
		}
		if n.host.PrepareSnapshot(need.Shard, meta) != nil {
			continue
		}
		files := &testFiles{meta: meta, engine: testEngine{applied: e.applied, durable: e.applied, data: map[uint64]string{}}}
		for i, content := range e.data {
			if i <= e.applied {
				files.engine.data[i] = content
			}
		}
		n.files[need.Shard] = files
		return
	}
}

// swap puts files in place; the node may crash before it can tell its Host.
func (w *world) swap(n *testNode, shard uint16) {
	files := n.files[shard]
	delete(n.files, shard)
	if w.rng.IntN(8) == 0 {
		n.host.AbortSnapshot(shard)
		return
	}
	*n.engine[shard] = files.engine
	if w.rng.IntN(8) == 0 && !w.healed {
		w.crash(n)
		return
	}
	if err := n.host.InstallSnapshot(shard, files.meta); err != nil {
		w.t.Fatalf("%s: install of shard %d: %v", n.name, shard, err)
	}
	w.images++
}

func (w *world) sendAll(n *testNode, out []Outgoing) {
	for _, o := range out {
		if w.cut[[2]string{n.name, o.To}] || w.rng.Float64() < w.loss {
			continue
		}
		w.net = append(w.net, packet{n.name, o.To, slices.Clone(o.Bytes), w.looks(o.To, w.now+w.rng.IntN(3))})
		if w.loss > 0 && w.rng.IntN(20) == 0 {
			w.net = append(w.net, packet{n.name, o.To, slices.Clone(o.Bytes), w.now + w.rng.IntN(60)})
		}
	}
}

// looks returns when a node takes what comes at a time.
func (w *world) looks(node string, at int) int {
	if w.slow == 0 {
		return at
	}
	period := 5 * w.slow
	phase := int(node[len(node)-1]) * 7 // each node at other times
	return at + (period-(at+phase)%period)%period
}

// deliver hands over what is due, in an order of chance while the network is bad.
func (w *world) deliver() {
	var due []packet
	rest := w.net[:0]
	for _, p := range w.net {
		if p.at <= w.now {
			due = append(due, p)
		} else {
			rest = append(rest, p)
		}
	}
	w.net = rest
	if w.loss > 0 {
		w.rng.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	}
	for _, p := range due {
		for _, n := range w.nodes {
			if n.name == p.to && n.up {
				if err := n.host.Receive(p.from, p.bytes); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
}

// step lets a little time pass: five steps are a tick.
func (w *world) step() {
	w.now++
	w.deliver()
	for _, n := range w.nodes {
		if !n.up {
			continue
		}
		if w.now%5 == 0 {
			n.host.Tick()
		}
		if n.late != nil && w.rng.IntN(4) == 0 {
			n.synced()
		}
		if w.placing && w.now%7 == 0 {
			w.reconcile(n)
		}
		if n.waiting {
			if w.rng.IntN(3) > 0 {
				w.finish(n)
			}
			continue
		}
		w.ready(n)
		if n.waiting && w.rng.IntN(2) == 0 {
			w.finish(n)
		}
	}
}

func (w *world) propose(n *testNode, shard uint16) bool { return w.proposeLarge(n, shard, 0) }

// proposeLarge proposes an entry with so many zeros at its end.
func (w *world) proposeLarge(n *testNode, shard uint16, zeros int) bool {
	w.tokens++
	parts := [][]byte{[]byte("t"), fmt.Appendf(nil, "%d", w.tokens), make([]byte, zeros)}
	if n.host.Propose(shard, 1, parts, w.tokens) != nil {
		w.tokens--
		return false
	}
	n.lent[1] = append(n.lent[1], parts...)
	return true
}

func (w *world) read(n *testNode, shard uint16) {
	w.tokens++
	w.readMin[w.tokens] = w.acked[shard]
	if n.host.Read(shard, w.tokens) != nil {
		w.tokens--
	}
}

// fresh makes a group on the given nodes, each with its role.
func (w *world) fresh(shard uint16, members []shardmap.Member) {
	w.rows[shard] = shardmap.Row{Version: 1, Era: 1, Fresh: true, Members: members, RaftIDLast: uint64(len(members))}
	for _, m := range members {
		n := w.node(m.Node)
		if err := n.host.Create(Replica{Shard: shard, RaftID: m.RaftID, Era: 1, Role: m.Role}, members); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) node(name string) *testNode {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

func (w *world) traceRound(n *testNode) {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%d %s %v", w.trace, n.name, n.round)
	w.trace = hash.Sum64()
}

// until lets time pass until done, and fails when it does not come.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	for end := w.now + 20_000; w.now < end; {
		if done() {
			return
		}
		w.step()
	}
	w.t.Fatalf("not in time: %s\n%s", what, w.picture())
}

func members(roles ...shardmap.Role) []shardmap.Member {
	var out []shardmap.Member
	for i, role := range roles {
		out = append(out, shardmap.Member{Node: fmt.Sprintf("n%d", i), Incarnation: "i", RaftID: uint64(i + 1), Role: role})
	}
	return out
}

// leaderOf returns the node that leads and can do so; nil if none does.
func (w *world) leaderOf(shard uint16) *testNode {
	var best *testNode
	term := uint64(0)
	for _, n := range w.nodes {
		if n.up {
			if g := n.host.group(shard); g != nil && g.leads() && g.term > term {
				best, term = n, g.term
			}
		}
	}
	return best
}

// picture shows who believes what.
func (w *world) picture() string {
	out := ""
	for _, shard := range sortedShards(w.rows) {
		out += fmt.Sprintf("row %d: %+v\n", shard, w.rows[shard])
		for _, n := range w.nodes {
			if g := n.host.group(shard); g != nil {
				status, _ := n.host.Status(shard)
				out += fmt.Sprintf("  %s waiting %v elapsed %d of %d: %+v, next %+v\n",
					n.name, n.waiting, g.elapsed, g.timeout, status, NextStep(w.rows[shard], status))
			}
		}
	}
	return out
}
