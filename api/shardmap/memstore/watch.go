package memstore

import (
	"context"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// watch sends views to one reader. It is guarded by the server's lock.
type watch struct {
	store *Store
	views chan shardmap.View // holds the newest view only
	stop  func() bool
	err   error // of the view sent last
	ended bool
}

// Watch implements shardmap.Store.
func (s *Store) Watch(ctx context.Context) <-chan shardmap.View {
	w := &watch{store: s, views: make(chan shardmap.View, 1)}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.state.closed || ctx.Err() != nil {
		close(w.views)
		return w.views
	}
	s.server.mu.watches = append(s.server.mu.watches, w)
	w.send()
	w.stop = context.AfterFunc(ctx, func() {
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		w.endLocked()
	})
	return w.views
}

// send replaces the view that waits by the newest one. Trouble is told once.
func (w *watch) send() {
	view := w.store.viewLocked()
	if view.Err != nil && view.Err == w.err { //nolint:errorlint // the same trouble, not one like it
		return
	}
	w.err = view.Err
	select {
	case <-w.views:
	default:
	}
	w.views <- view
}

func (w *watch) endLocked() {
	if w.ended {
		return
	}
	w.ended = true
	w.stop()
	w.store.server.mu.watches = slices.DeleteFunc(w.store.server.mu.watches, func(other *watch) bool { return other == w })
	close(w.views)
}
