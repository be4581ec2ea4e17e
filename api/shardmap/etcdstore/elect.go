package etcdstore

import (
	"context"
	"errors"
	"fmt"

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
	err = concurrency.NewElection(l.session, s.keys.election()).Campaign(waiting, name)
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

// Resign implements shardmap.Leadership.
func (l *leadership) Resign(ctx context.Context) error { return l.revoke(ctx) }
