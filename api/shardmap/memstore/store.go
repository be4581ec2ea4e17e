package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Store is one process' connection to a Server.
type Store struct {
	server *Server
	// state is guarded by the server's lock.
	state struct {
		seen      shardmap.Seen
		reachable bool
		closed    bool
		last      shardmap.View // the last good one
	}
}

var _ shardmap.Store = (*Store)(nil)

// SetReachable cuts this process off from the server, or joins it again. Its leases
// stay until Server.ExpireLeases.
func (s *Store) SetReachable(reachable bool) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.state.reachable = reachable
	for _, w := range s.server.mu.watches {
		if w.store == s {
			w.send()
		}
	}
	for _, c := range slices.Clone(s.server.mu.candidates) {
		s.server.electLocked(c.election)
	}
}

// Seen returns the newest map that this store has seen.
func (s *Store) Seen() shardmap.Seen {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return s.state.seen
}

// usableLocked returns the error of a call that cannot be made.
func (s *Store) usableLocked(ctx context.Context) error {
	switch {
	case s.state.closed:
		return shardmap.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case !s.state.reachable:
		return shardmap.ErrUnavailable
	}
	return nil
}

// viewLocked is the server's view, held against what this store has seen.
func (s *Store) viewLocked() shardmap.View {
	var err error
	if !s.state.reachable {
		err = shardmap.ErrUnavailable
	} else {
		view := s.server.viewLocked()
		if err = s.state.seen.Check(view.Map); err == nil {
			s.sawLocked(view.Map)
			s.state.last = view
			return view
		}
	}
	view := s.state.last
	view.Err = err
	return view
}

func (s *Store) sawLocked(m *shardmap.Map) {
	if m != nil {
		s.state.seen = shardmap.Seen{ClusterID: m.ID, Epoch: m.Epoch}
	}
}

// Load implements shardmap.Store.
func (s *Store) Load(ctx context.Context) (shardmap.View, error) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if err := s.usableLocked(ctx); err != nil {
		view := s.state.last
		view.Err = err
		return view, err
	}
	view := s.viewLocked()
	return view, view.Err
}

// CompareAndSwap implements shardmap.Store.
func (s *Store) CompareAndSwap(ctx context.Context, epoch uint64, next shardmap.Map) error {
	encoded, err := next.Encode()
	if err != nil {
		return err
	}
	stored, err := shardmap.Decode(encoded) // shares nothing, and is what another process would read
	if err != nil {
		return err
	}
	if next.Epoch <= epoch {
		return fmt.Errorf("%w: epoch %d after %d", shardmap.ErrMap, next.Epoch, epoch)
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if err := s.usableLocked(ctx); err != nil {
		return err
	}
	if err := s.state.seen.CheckSwap(next); err != nil {
		return err
	}
	is := uint64(0)
	if s.server.mu.shardMap != nil {
		is = s.server.mu.shardMap.Epoch
		if s.server.mu.shardMap.ID != next.ID {
			return shardmap.ErrWrongCluster
		}
	}
	if is != epoch {
		return fmt.Errorf("%w: epoch %d, not %d", shardmap.ErrConflict, is, epoch)
	}
	s.server.mu.shardMap = &stored
	s.sawLocked(&stored)
	s.server.notifyLocked()
	return nil
}

// change changes what the server keeps, and notifies all watchers, unless f fails. F holds the
// server's lock.
func (s *Store) change(ctx context.Context, f func() error) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if err := s.usableLocked(ctx); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	s.server.notifyLocked()
	return nil
}

// SetDesired implements shardmap.Store.
func (s *Store) SetDesired(ctx context.Context, node string, desired shardmap.Desired) error {
	if !shardmap.ValidName(node) || desired != "" && !desired.Valid() {
		return fmt.Errorf("%w: id %q, desired %q", shardmap.ErrNode, node, desired)
	}
	return s.change(ctx, func() error {
		if desired == "" {
			delete(s.server.mu.desired, node)
		} else {
			s.server.mu.desired[node] = desired
		}
		return nil
	})
}

// SetManager implements shardmap.Store.
func (s *Store) SetManager(ctx context.Context, manager string) error {
	if err := shardmap.ValidateManager(manager); err != nil {
		return err
	}
	return s.change(ctx, func() error {
		s.server.mu.manager = manager
		return nil
	})
}

// SetDatabase implements shardmap.Store.
func (s *Store) SetDatabase(ctx context.Context, name string, mark shardmap.DatabaseMark) error {
	if err := shardmap.ValidateDatabase(name, mark); err != nil {
		return err
	}
	return s.change(ctx, func() error {
		databases := maps.Clone(s.server.mu.databases)
		_, known := databases[name]
		switch {
		case mark == "":
			delete(databases, name)
		case !known && len(databases) >= shardmap.DatabasesMax:
			return shardmap.ErrDatabases
		default:
			databases[name] = mark
		}
		s.server.mu.databases = databases
		return nil
	})
}

// SwapTokens implements shardmap.Store.
func (s *Store) SwapTokens(ctx context.Context, swaps []shardmap.TokenSwap) error {
	if err := shardmap.ValidateTokenSwaps(swaps); err != nil {
		return err
	}
	return s.change(ctx, func() error {
		tokens := maps.Clone(s.server.mu.tokens)
		shardmap.ApplyTokenSwaps(tokens, swaps)
		s.server.mu.tokens = tokens
		return nil
	})
}

// SwapToken implements shardmap.Store.
func (s *Store) SwapToken(ctx context.Context, id, old, next string) error {
	if err := shardmap.ValidateToken(id, next); err != nil {
		return err
	}
	return s.change(ctx, func() (err error) {
		s.server.mu.tokens, err = swapped(s.server.mu.tokens, recordSwap{id, old, next, shardmap.TokensMax, shardmap.ErrTokens, shardmap.ErrTokenChanged})
		return err
	})
}

// SwapQuery implements shardmap.Store.
func (s *Store) SwapQuery(ctx context.Context, id, old, next string) error {
	if err := shardmap.ValidateQuery(id, next); err != nil {
		return err
	}
	return s.change(ctx, func() (err error) {
		s.server.mu.queries, err = swapped(s.server.mu.queries, recordSwap{id, old, next, shardmap.QueriesMax, shardmap.ErrQueries, shardmap.ErrQueryChanged})
		return err
	})
}

// recordSwap replaces a record, where "" stands for none.
type recordSwap struct {
	id, old, next       string
	most                int
	errFull, errChanged error
}

// swapped returns a copy of records with one replaced, or the records themselves where it is not.
func swapped(records map[string]string, r recordSwap) (map[string]string, error) {
	switch {
	case r.old == "" && len(records) >= r.most:
		return records, r.errFull
	case records[r.id] != r.old:
		return records, r.errChanged
	}
	records = maps.Clone(records)
	if r.next == "" {
		delete(records, r.id)
	} else {
		records[r.id] = r.next
	}
	return records, nil
}

// Retire implements shardmap.Store.
func (s *Store) Retire(ctx context.Context, node, incarnation string) error {
	if !shardmap.ValidName(node) || !shardmap.ValidIncarnation(incarnation) {
		return fmt.Errorf("%w: id %q, incarnation %q", shardmap.ErrNode, node, incarnation)
	}
	return s.change(ctx, func() error {
		if held := s.server.mu.nodes[node]; held != nil && held.info.Incarnation == incarnation {
			return fmt.Errorf("%w: %s", shardmap.ErrNodeHeld, node)
		}
		known := slices.Clone(s.server.mu.incarnations[node])
		at := slices.IndexFunc(known, func(i shardmap.Incarnation) bool { return i.ID == incarnation })
		if at < 0 {
			known = append(known, shardmap.Incarnation{ID: incarnation})
			at = len(known) - 1
		}
		known[at].Retired = true
		s.server.mu.incarnations[node] = known
		return nil
	})
}

// Close implements shardmap.Store.
func (s *Store) Close() error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.state.closed {
		return nil
	}
	s.state.closed = true
	for _, held := range s.server.mu.nodes {
		if held.store == s {
			s.server.dropLocked(held)
		}
	}
	for _, c := range slices.Clone(s.server.mu.candidates) {
		if c.store == s {
			s.server.deposeLocked(c)
			c.end()
		}
	}
	for _, election := range slices.Sorted(maps.Keys(s.server.mu.leaders)) {
		if held := s.server.mu.leaders[election]; held.store == s {
			s.server.deposeLocked(held)
		}
	}
	for _, w := range slices.Clone(s.server.mu.watches) {
		if w.store == s {
			w.endLocked()
		}
	}
	s.server.notifyLocked()
	return nil
}
