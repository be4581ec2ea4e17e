package etcdstore

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// leadership is a won election.
type leadership struct{ *lease }

// Campaign implements shardmap.Store.
func (s *Store) Campaign(ctx context.Context, name string) (shardmap.Leadership, error) {
	l, err := s.grant(ctx)
	if err != nil {
		return nil, fmt.Errorf("campaign of %s: %w", name, err)
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.session.Ctx(), cancel)()
	err = stand(waiting, concurrency.NewElection(l.session, s.keys.election()), name)
	if err == nil && l.session.Ctx().Err() == nil {
		return &leadership{l}, nil
	}
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case s.ctx.Err() != nil:
		err = shardmap.ErrClosed
	default:
		err = errors.Join(shardmap.ErrUnavailable, err)
	}
	_ = l.revoke(context.WithoutCancel(ctx)) // else it ends by itself
	return nil, fmt.Errorf("campaign of %s: %w", name, err)
}

// stand waits until the election is won. A candidate may wait for months: when its watch
// breaks off it goes on from a revision that was compacted long ago, and has to look anew.
// It keeps its place meanwhile. Each round takes another compaction.
func stand(ctx context.Context, election *concurrency.Election, name string) error {
	for {
		if err := election.Campaign(ctx, name); !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
	}
}

// Resign implements shardmap.Leadership.
func (l *leadership) Resign(ctx context.Context) error { return l.revoke(ctx) }
