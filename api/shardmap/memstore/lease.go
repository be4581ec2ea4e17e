package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// registration is a node's entry. It is guarded by the server's lock.
type registration struct {
	store *Store
	info  shardmap.NodeInfo
	lost  chan struct{}
	ended bool
}

func (r *registration) end() {
	if !r.ended {
		r.ended = true
		close(r.lost)
	}
}

// Register implements shardmap.Store.
func (s *Store) Register(ctx context.Context, info shardmap.NodeInfo) (shardmap.Registration, error) {
	if err := info.Validate(); err != nil {
		return nil, err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if err := s.usableLocked(ctx); err != nil {
		return nil, err
	}
	known := s.server.mu.incarnations[info.ID]
	at := slices.IndexFunc(known, func(i shardmap.Incarnation) bool { return i.ID == info.Incarnation })
	if at >= 0 && known[at].Retired {
		return nil, fmt.Errorf("%w: incarnation %s of %s", shardmap.ErrRetired, info.Incarnation, info.ID)
	}
	if held := s.server.mu.nodes[info.ID]; held != nil {
		if !info.Succeeds(held.info) {
			return nil, fmt.Errorf("%w: %s at %s, incarnation %s", shardmap.ErrNodeHeld, info.ID, held.info.RPCAddress, held.info.Incarnation)
		}
		s.server.dropLocked(held)
	}
	s.server.mu.incarnations[info.ID] = shardmap.Newest(known, info.Incarnation)
	info.Former = nil // told, not kept
	r := &registration{store: s, info: info, lost: make(chan struct{})}
	s.server.mu.nodes[info.ID] = r
	s.server.notifyLocked()
	return r, nil
}

// Update implements shardmap.Registration.
func (r *registration) Update(ctx context.Context, info shardmap.NodeInfo) error {
	if err := info.Validate(); err != nil {
		return err
	}
	r.store.server.mu.Lock()
	defer r.store.server.mu.Unlock()
	if info.ID != r.info.ID || info.Incarnation != r.info.Incarnation {
		return fmt.Errorf("%w: id or incarnation of %s changed", shardmap.ErrNode, r.info.ID)
	}
	if err := r.store.usableLocked(ctx); err != nil {
		return err
	}
	if r.ended {
		return fmt.Errorf("%w: the entry of %s is lost", shardmap.ErrNodeHeld, r.info.ID)
	}
	info.Former = nil
	r.info = info
	r.store.server.notifyLocked()
	return nil
}

// Lost implements shardmap.Registration.
func (r *registration) Lost() <-chan struct{} { return r.lost }

// Close implements shardmap.Registration.
func (r *registration) Close(ctx context.Context) error {
	r.store.server.mu.Lock()
	defer r.store.server.mu.Unlock()
	if r.ended {
		return nil
	}
	if err := r.store.usableLocked(ctx); err != nil {
		return err
	}
	r.store.server.dropLocked(r)
	r.store.server.notifyLocked()
	return nil
}

// leadership is a candidature, won or not yet. It is guarded by the server's lock.
type leadership struct {
	store    *Store
	election shardmap.Election
	elected  chan struct{}
	lost     chan struct{}
	ended    bool
}

func (l *leadership) end() {
	if !l.ended {
		l.ended = true
		close(l.lost)
	}
}

// Campaign implements shardmap.Store.
func (s *Store) Campaign(ctx context.Context, election shardmap.Election, name string) (shardmap.Leadership, error) {
	l := &leadership{store: s, election: election, elected: make(chan struct{}), lost: make(chan struct{})}
	s.server.mu.Lock()
	if err := s.usableLocked(ctx); err != nil {
		s.server.mu.Unlock()
		return nil, fmt.Errorf("campaign of %s: %w", name, err)
	}
	s.server.mu.candidates = append(s.server.mu.candidates, l)
	s.server.electLocked(election)
	s.server.mu.Unlock()
	select {
	case <-l.elected:
		return l, nil
	case <-l.lost:
		return nil, shardmap.ErrClosed
	case <-ctx.Done():
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.server.deposeLocked(l)
		return nil, ctx.Err()
	}
}

// Lost implements shardmap.Leadership.
func (l *leadership) Lost() <-chan struct{} { return l.lost }

// Resign implements shardmap.Leadership.
func (l *leadership) Resign(ctx context.Context) error {
	l.store.server.mu.Lock()
	defer l.store.server.mu.Unlock()
	if l.ended {
		return nil
	}
	if err := l.store.usableLocked(ctx); err != nil {
		return err
	}
	l.store.server.deposeLocked(l)
	return nil
}
