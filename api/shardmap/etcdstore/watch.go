package etcdstore

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Bounds of the wait after a failure; it doubles.
const (
	retryDelayMin = 50 * time.Millisecond
	retryDelayMax = 2 * time.Second
)

// watch follows the keys for one reader.
type watch struct {
	store *Store
	views chan shardmap.View // holds the newest view only; this watch alone sends
	all   contents
	seen  shardmap.Seen // before the keys were read last
	err   error         // of the view sent last
}

// Watch implements shardmap.Store.
func (s *Store) Watch(ctx context.Context) <-chan shardmap.View {
	w := &watch{store: s, views: make(chan shardmap.View, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed || ctx.Err() != nil {
		close(w.views)
		return w.views
	}
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		defer close(w.views)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		w.run(ctx)
	}()
	return w.views
}

// run reads all keys and follows them, again and again, until ctx ends.
func (w *watch) run(ctx context.Context) {
	retry, failures := backoff.Exponential{Min: retryDelayMin, Max: retryDelayMax}, 0
	for ctx.Err() == nil {
		w.seen = w.store.Seen()
		var revision int64
		err := w.store.request(ctx, func(ctx context.Context, client *clientv3.Client) (err error) {
			revision, err = w.all.load(ctx, client, w.store.keys)
			return err
		})
		if err == nil {
			w.send()
			began := time.Now()
			err = w.follow(ctx, revision)
			if time.Since(began) > retryDelayMax {
				failures = 0
			}
		}
		if err != nil && ctx.Err() == nil {
			w.fail(err)
		}
		failures++
		select {
		case <-ctx.Done():
		case <-time.After(retry.Delay(failures)):
		}
	}
}

// follow sends a view after each change, until the keys have to be read anew. It
// returns an error when etcd does not answer.
func (w *watch) follow(ctx context.Context, revision int64) error {
	client, err := w.store.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	changes := w.changes(ctx, client, revision+1)
	probe := time.NewTicker(w.store.options.ProbeInterval)
	defer probe.Stop()
	for {
		select {
		case change, open := <-changes:
			if !open || change.Err() != nil {
				return nil // compacted, or no leader: reading anew will tell
			}
			revision = max(revision, change.Header.Revision)
			visible := false
			for _, event := range change.Events {
				value := event.Kv.Value
				if event.Type == clientv3.EventTypeDelete {
					value = nil
				}
				visible = w.all.put(w.store.keys, string(event.Kv.Key), value) || visible
			}
			if visible {
				w.send()
			}
		case <-probe.C:
			now, err := w.probe(ctx)
			if err != nil || now < revision {
				return err // set back: the watch would wait for revisions that were already there
			}
		}
	}
}

// changes hands on what etcd's watch says, until ctx ends. The client's Watch waits
// for a connection, so it must not be waited for here.
func (w *watch) changes(ctx context.Context, client *clientv3.Client, from int64) <-chan clientv3.WatchResponse {
	changes := make(chan clientv3.WatchResponse)
	w.store.running.Go(func() {
		defer close(changes)
		for change := range client.Watch(ctx, w.store.keys.prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
			select {
			case changes <- change:
			case <-ctx.Done():
				return
			}
		}
	})
	return changes
}

// probe asks etcd for its revision.
func (w *watch) probe(ctx context.Context) (revision int64, err error) {
	err = w.store.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		got, err := client.Get(ctx, w.store.keys.shardMap(), clientv3.WithCountOnly())
		if err == nil {
			revision = got.Header.Revision
		}
		return err
	})
	return revision, err
}

// send replaces the view that waits by what is known now.
func (w *watch) send() {
	view := w.all.view()
	if view.Err == nil {
		view.Err = w.seen.Check(view.Map)
	}
	if view.Err != nil {
		w.fail(view.Err)
		return
	}
	if view.Map != nil {
		w.seen = shardmap.Seen{ClusterID: view.Map.ID, Epoch: view.Map.Epoch}
	}
	w.store.saw(view)
	w.replace(view)
}

// fail describes trouble, once.
func (w *watch) fail(err error) {
	if w.err != nil && kindOf(w.err) == kindOf(err) { //nolint:errorlint // kinds are sentinels
		return
	}
	w.replace(w.store.lastWith(err))
}

func (w *watch) replace(view shardmap.View) {
	w.err = view.Err
	select {
	case <-w.views:
	default:
	}
	w.views <- view
}

// kindOf returns the documented kind of an error, whose text may differ each time.
func kindOf(err error) error {
	for _, kind := range []error{shardmap.ErrUnavailable, shardmap.ErrRolledBack, shardmap.ErrWrongCluster, shardmap.ErrMap, shardmap.ErrFormat, shardmap.ErrClosed} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return err
}
