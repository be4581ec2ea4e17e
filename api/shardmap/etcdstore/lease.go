package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// revokeTimeout bounds the wait for etcd to take a lease back.
const revokeTimeout = time.Second

// lease is a kept lease. Lost is closed when it ended, for whatever reason.
type lease struct {
	store   *Store
	session *concurrency.Session
	lost    chan struct{}
	once    sync.Once
}

// grant gets a lease and keeps it.
func (s *Store) grant(ctx context.Context) (*lease, error) {
	l := &lease{store: s, lost: make(chan struct{})}
	err := s.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		granted, err := client.Grant(ctx, max(int64(s.options.LeaseTTL/time.Second), 1))
		if err != nil {
			return err
		}
		l.session, err = concurrency.NewSession(client, concurrency.WithLease(granted.ID), concurrency.WithContext(s.ctx))
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, l.keep()
}

// keep ends the lease when its store is closed.
func (l *lease) keep() error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.store.mu.closed {
		l.session.Orphan()
		return shardmap.ErrClosed
	}
	l.store.running.Add(1)
	go func() {
		defer l.store.running.Done()
		<-l.session.Done()
		l.end()
		if l.store.ctx.Err() != nil {
			_ = l.revoke(context.Background()) // else it ends by its time
		}
	}()
	return nil
}

func (l *lease) end() { l.once.Do(func() { close(l.lost) }) }

// revoke revokes the lease. What hangs on it goes at once instead of when it ends.
func (l *lease) revoke(ctx context.Context) error {
	l.session.Orphan()
	l.end()
	ctx, cancel := context.WithTimeout(ctx, min(revokeTimeout, l.store.options.RequestTimeout))
	defer cancel()
	if _, err := l.session.Client().Revoke(ctx, l.session.Lease()); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("%w: %w", shardmap.ErrUnavailable, err)
	}
	return nil
}

// Lost implements shardmap.Registration and shardmap.Leadership.
func (l *lease) Lost() <-chan struct{} { return l.lost }

// registration is a node's entry.
type registration struct {
	*lease
	id, incarnation string
}

// Register implements shardmap.Store.
func (s *Store) Register(ctx context.Context, info shardmap.NodeInfo) (shardmap.Registration, error) {
	if err := info.Validate(); err != nil {
		return nil, err
	}
	l, err := s.grant(ctx)
	if err != nil {
		return nil, err
	}
	r := &registration{lease: l, id: info.ID, incarnation: info.Incarnation}
	var revision int64
	err = s.request(ctx, func(ctx context.Context, client *clientv3.Client) (err error) {
		revision, err = s.enter(ctx, client, info, l.session.Lease())
		return err
	})
	if err != nil {
		_ = l.revoke(context.WithoutCancel(ctx)) // else it ends by itself
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, shardmap.ErrClosed
	}
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		r.follow(revision)
	}()
	return r, nil
}

// entry is what etcd has of a node.
type entry struct {
	node, incarnations *mvccpb.KeyValue // nil: nothing
	known              []shardmap.Incarnation
}

func (s *Store) readEntry(ctx context.Context, client *clientv3.Client, node string) (e entry, err error) {
	got, err := client.Txn(ctx).Then(clientv3.OpGet(s.keys.node(node)), clientv3.OpGet(s.keys.incarnations(node))).Commit()
	if err != nil {
		return e, err
	}
	if kvs := got.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		e.node = kvs[0]
	}
	if kvs := got.Responses[1].GetResponseRange().Kvs; len(kvs) > 0 {
		e.incarnations = kvs[0]
		e.known, err = decodeIncarnations(kvs[0].Value)
	}
	return e, err
}

// unchanged are the conditions that etcd still has the entry.
func (s *Store) unchanged(node string, e entry) []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.keys.node(node)), "=", e.node.GetModRevision()),
		clientv3.Compare(clientv3.ModRevision(s.keys.incarnations(node)), "=", e.incarnations.GetModRevision()),
	}
}

// holder returns the description of the process that is registered now.
func (e entry) holder() (shardmap.NodeInfo, bool) {
	var info shardmap.NodeInfo
	if e.node == nil || json.Unmarshal(e.node.Value, &info) != nil {
		return info, false
	}
	return info, true
}

func (s *Store) enter(ctx context.Context, client *clientv3.Client, info shardmap.NodeInfo, id clientv3.LeaseID) (int64, error) {
	encoded, err := json.Marshal(info)
	if err != nil {
		return 0, err
	}
	for range transactionTries {
		e, err := s.readEntry(ctx, client, info.ID)
		if err != nil {
			return 0, err
		}
		if slices.Contains(e.known, shardmap.Incarnation{ID: info.Incarnation, Retired: true}) {
			return 0, fmt.Errorf("%w: incarnation %s of %s", shardmap.ErrRetired, info.Incarnation, info.ID)
		}
		if held, is := e.holder(); is && !info.Succeeds(held) {
			return 0, fmt.Errorf("%w: %s at %s, incarnation %s", shardmap.ErrNodeHeld, info.ID, held.RPCAddress, held.Incarnation)
		}
		known, err := json.Marshal(shardmap.Newest(e.known, info.Incarnation))
		if err != nil {
			return 0, err
		}
		done, err := client.Txn(ctx).If(s.unchanged(info.ID, e)...).Then(
			clientv3.OpPut(s.keys.node(info.ID), string(encoded), clientv3.WithLease(id)),
			clientv3.OpPut(s.keys.incarnations(info.ID), string(known)),
		).Commit()
		if err != nil {
			return 0, err
		}
		if done.Succeeded {
			return done.Header.Revision, nil
		}
	}
	return 0, fmt.Errorf("%w: the entry of %s changes all the time", shardmap.ErrConflict, info.ID)
}

// follow ends the registration when another process has taken the entry over.
func (r *registration) follow(revision int64) {
	defer r.end()
	changes := r.session.Client().Watch(r.session.Ctx(), r.store.keys.node(r.id), clientv3.WithRev(revision+1))
	for change := range changes {
		if change.Err() != nil {
			return // it cannot be known: registering again will tell
		}
		for _, event := range change.Events {
			if event.Type == clientv3.EventTypeDelete || clientv3.LeaseID(event.Kv.Lease) != r.session.Lease() {
				return
			}
		}
	}
}

// Update implements shardmap.Registration.
func (r *registration) Update(ctx context.Context, info shardmap.NodeInfo) error {
	if err := info.Validate(); err != nil {
		return err
	}
	if info.ID != r.id || info.Incarnation != r.incarnation {
		return fmt.Errorf("%w: id or incarnation of %s changed", shardmap.ErrNode, r.id)
	}
	encoded, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("%w: %w", shardmap.ErrNode, err)
	}
	return r.store.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		key := r.store.keys.node(r.id)
		done, err := client.Txn(ctx).
			If(clientv3.Compare(clientv3.LeaseValue(key), "=", r.session.Lease())).
			Then(clientv3.OpPut(key, string(encoded), clientv3.WithLease(r.session.Lease()))).Commit()
		if err == nil && !done.Succeeded {
			err = fmt.Errorf("%w: the entry of %s is lost", shardmap.ErrNodeHeld, r.id)
		}
		return err
	})
}

// Close implements shardmap.Registration.
func (r *registration) Close(ctx context.Context) error { return r.revoke(ctx) }

// Retire implements shardmap.Store.
func (s *Store) Retire(ctx context.Context, node, incarnation string) error {
	if !shardmap.ValidName(node) || !shardmap.ValidIncarnation(incarnation) {
		return fmt.Errorf("%w: id %q, incarnation %q", shardmap.ErrNode, node, incarnation)
	}
	return s.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		for range transactionTries {
			e, err := s.readEntry(ctx, client, node)
			if err != nil {
				return err
			}
			if held, is := e.holder(); is && held.Incarnation == incarnation {
				return fmt.Errorf("%w: %s", shardmap.ErrNodeHeld, node)
			}
			known := e.known
			at := slices.IndexFunc(known, func(i shardmap.Incarnation) bool { return i.ID == incarnation })
			if at < 0 {
				at = len(known)
				known = append(known, shardmap.Incarnation{ID: incarnation})
			}
			known[at].Retired = true
			encoded, err := json.Marshal(known)
			if err != nil {
				return err
			}
			done, err := client.Txn(ctx).If(s.unchanged(node, e)...).Then(clientv3.OpPut(s.keys.incarnations(node), string(encoded))).Commit()
			if err != nil || done.Succeeded {
				return err
			}
		}
		return fmt.Errorf("%w: the entry of %s changes all the time", shardmap.ErrConflict, node)
	})
}
