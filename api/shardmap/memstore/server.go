package memstore

import (
	"maps"
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Server holds what is stored.
type Server struct {
	mu struct {
		sync.Mutex
		content
		nodes      map[string]*registration
		leaders    map[shardmap.Election]*leadership
		candidates []*leadership // in the order in which they came
		watches    []*watch      // in the order in which they began
	}
}

// content is what a snapshot has: all but what hangs on leases.
type content struct {
	shardMap     *shardmap.Map
	desired      map[string]shardmap.Desired
	incarnations map[string][]shardmap.Incarnation
	manager      string
	databases    map[string]shardmap.DatabaseMark // replaced, never changed in place
	tokens       map[string]string                // by id; the same
	queries      map[string]string                // by id; the same
	metadata     map[string]shardmap.MetadataRecord
	revision     int64 // of the newest record
}

func (c content) clone() content {
	c.desired = maps.Clone(c.desired)
	c.incarnations = cloneIncarnations(c.incarnations)
	c.metadata = maps.Clone(c.metadata)
	return c
}

func cloneIncarnations(all map[string][]shardmap.Incarnation) map[string][]shardmap.Incarnation {
	cloned := make(map[string][]shardmap.Incarnation, len(all))
	for node, known := range all {
		cloned[node] = slices.Clone(known)
	}
	return cloned
}

// NewServer returns an empty server.
func NewServer() *Server {
	s := &Server{}
	s.mu.desired = map[string]shardmap.Desired{}
	s.mu.incarnations = map[string][]shardmap.Incarnation{}
	s.mu.nodes = map[string]*registration{}
	s.mu.leaders = map[shardmap.Election]*leadership{}
	s.mu.databases = map[string]shardmap.DatabaseMark{}
	s.mu.tokens, s.mu.queries = map[string]string{}, map[string]string{}
	s.mu.metadata = map[string]shardmap.MetadataRecord{}
	return s
}

// Open connects a process that has seen a map before, or none.
func (s *Server) Open(seen shardmap.Seen) *Store {
	store := &Store{server: s}
	store.state.seen, store.state.reachable = seen, true
	return store
}

// Snapshot is a copy of what a server stores, without what hangs on leases.
type Snapshot struct{ content content }

// Snapshot copies what is stored.
func (s *Server) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{s.mu.content.clone()}
}

// Restore sets the server back to a snapshot, as an operator with a backup does.
// The leases stay.
func (s *Server) Restore(snapshot Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.content = snapshot.content.clone()
	s.notifyLocked()
}

// ExpireLeases ends the registrations and leaderships of all stores that cannot
// reach the server.
func (s *Server) ExpireLeases() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(s.mu.nodes)) {
		if held := s.mu.nodes[node]; !held.store.state.reachable {
			s.dropLocked(held)
		}
	}
	s.mu.candidates = slices.DeleteFunc(s.mu.candidates, func(c *leadership) bool { return !c.store.state.reachable })
	for _, election := range slices.Sorted(maps.Keys(s.mu.leaders)) {
		if held := s.mu.leaders[election]; !held.store.state.reachable {
			s.deposeLocked(held)
		}
	}
	s.notifyLocked()
}

// dropLocked ends a registration.
func (s *Server) dropLocked(held *registration) {
	if s.mu.nodes[held.info.ID] == held {
		delete(s.mu.nodes, held.info.ID)
	}
	held.end()
}

// deposeLocked ends a leadership, or a candidature, and elects the next candidate.
func (s *Server) deposeLocked(held *leadership) {
	s.mu.candidates = slices.DeleteFunc(s.mu.candidates, func(c *leadership) bool { return c == held })
	if s.mu.leaders[held.election] == held {
		delete(s.mu.leaders, held.election)
		held.end()
	}
	s.electLocked(held.election)
}

func (s *Server) electLocked(election shardmap.Election) {
	if s.mu.leaders[election] != nil {
		return
	}
	for i, candidate := range s.mu.candidates {
		if candidate.election == election && candidate.store.state.reachable {
			s.mu.candidates = slices.Delete(s.mu.candidates, i, i+1)
			s.mu.leaders[election] = candidate
			close(candidate.elected)
			return
		}
	}
}

// viewLocked is what is stored now.
func (s *Server) viewLocked() shardmap.View {
	nodes := make(map[string]shardmap.NodeInfo, len(s.mu.nodes))
	for id, held := range s.mu.nodes {
		nodes[id] = held.info
	}
	return shardmap.View{
		Map: s.mu.shardMap, Nodes: nodes,
		Manager:      s.mu.manager,
		Databases:    s.mu.databases,
		Tokens:       s.mu.tokens,
		Queries:      s.mu.queries,
		Desired:      maps.Clone(s.mu.desired),
		Incarnations: cloneIncarnations(s.mu.incarnations),
	}
}

// notifyLocked sends the newest view to all watches.
func (s *Server) notifyLocked() {
	for _, w := range s.mu.watches {
		w.send()
	}
}
