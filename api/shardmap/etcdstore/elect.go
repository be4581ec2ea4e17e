package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// leadership is a won election.
type leadership struct{ *lease }

// Campaign implements shardmap.Store.
func (s *Store) Campaign(ctx context.Context, election shardmap.Election, name string) (shardmap.Leadership, error) {
	l, err := s.grant(ctx)
	if err != nil {
		return nil, fmt.Errorf("campaign of %s: %w", name, err)
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.session.Ctx(), cancel)()
	err = s.stand(waiting, concurrency.NewElection(l.session, s.keys.election(election)), name)
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

// stand waits until the election is won. A candidate may wait for months: connections break,
// and a watch that goes on after that may ask for a revision that was compacted long ago.
// The candidate keeps its place as long as its lease, which ends ctx, and looks anew.
func (s *Store) stand(ctx context.Context, election *concurrency.Election, name string) error {
	for {
		err := election.Campaign(ctx, name)
		if err == nil || !errors.Is(err, rpctypes.ErrCompacted) && !isUnavailable(err) {
			return err
		}
		again := time.NewTimer(s.options.ProbeInterval)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return err
		}
	}
}

// isUnavailable reports whether an answer of etcd, or of gRPC for it, is that it cannot be reached now.
func isUnavailable(err error) bool {
	var etcd interface{ Code() codes.Code }
	if errors.As(err, &etcd) {
		return etcd.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable
}

// Resign implements shardmap.Leadership.
func (l *leadership) Resign(ctx context.Context) error { return l.revoke(ctx) }
