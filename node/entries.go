package node

import "sync"

// Entries is what a node knows of kinds of entries that older programs do not know: see handshake.Entries. One of an older
// version tells nothing.
type Entries struct {
	Forgets uint32 // those that forget series
	Thins   uint32 // those before whose cuts of each hour the last sample is kept
	Hours   uint32 // those with batches of hours
	// Exemplars: those that keep exemplars, which change nothing else: the format of no folder tells of them.
	Exemplars uint32
}

// entriesHeardMax bounds the nodes of which it is known before the first map names them.
const entriesHeardMax = 4096

// What a node knows of a kind of entries.
const (
	entriesUnderstood = 1
	entriesKept       = 2 // and the format of the folder allows them
	entriesKeyless    = 3 // of those that forget series: and it takes shards without the keys of these
)

func forgetsUnderstood(known Entries) bool { return known.Forgets >= entriesUnderstood }
func forgetsKept(known Entries) bool       { return known.Forgets >= entriesKept }
func keysUnneeded(known Entries) bool      { return known.Forgets >= entriesKeyless }
func thinsUnderstood(known Entries) bool   { return known.Thins >= entriesUnderstood }
func thinsKept(known Entries) bool         { return known.Thins >= entriesKept }
func hoursUnderstood(known Entries) bool   { return known.Hours >= entriesUnderstood }
func hoursKept(known Entries) bool         { return known.Hours >= entriesKept }

func exemplarsUnknown(known Entries) bool { return known.Exemplars < entriesUnderstood }

// peerEntries is what the other nodes know. Entries of a kind may be proposed only when all nodes have folders that tell of
// them.
type peerEntries struct {
	alone bool

	mu     sync.Mutex
	others map[string]bool // nodes that the map names; nil: there is no map yet
	heard  map[string]Entries
}

func (p *peerEntries) init(nodeID string) {
	p.alone = nodeID == "" || nodeID == aloneID
	p.heard = map[string]Entries{}
}

// expect sets which other nodes there are.
func (p *peerEntries) expect(others map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.others = others
	for name := range p.heard {
		if !others[name] {
			delete(p.heard, name)
		}
	}
}

// all reports whether something is true of what each of the other nodes has said.
func (p *peerEntries) all(holds func(Entries) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.others == nil {
		return p.alone
	}
	for name := range p.others {
		if !holds(p.heard[name]) {
			return false
		}
	}
	return true
}

// any reports whether something is true of what one of the other nodes has said.
func (p *peerEntries) any(holds func(Entries) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.heard {
		if holds(known) {
			return true
		}
	}
	return false
}

// HeardEntries notes what another node knows.
func (n *Node) HeardEntries(from string, known Entries) {
	p := &n.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.others == nil || p.others[from] {
		if _, before := p.heard[from]; before || len(p.heard) < entriesHeardMax {
			p.heard[from] = known
		}
	}
}

// Entries returns what this node knows.
func (n *Node) Entries() Entries {
	known := Entries{Forgets: entriesUnderstood, Thins: entriesUnderstood, Hours: entriesUnderstood, Exemplars: entriesUnderstood}
	if n.engine.LetsForget() {
		known.Forgets = entriesKeyless
	}
	if n.engine.LetsThin() {
		known.Thins = entriesKept
	}
	if n.engine.TakesHours() {
		known.Hours = entriesKept
	}
	return known
}
