package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// scansLeave is the part of the memory of scans that readers leave to what is made of what they have read.
const scansLeave = 4

// scanAccount charges what a scan holds to what all scans of the node may hold. It implements scan.Account.
type scanAccount struct {
	ctx   context.Context //nolint:containedctx // of the scan
	pool  *budget.Pool
	lease budget.Lease
	turn  chan struct{}
}

// scanAccount returns the account of a scan, whose lease the caller closes. Those whom routers scan for share the memory fairly,
// and databases where a router does not know for whom.
func (s *Server) scanAccount(ctx context.Context, database string) *scanAccount {
	tenant := "database " + database
	if owner := handshake.OwnerOf(ctx); owner != "" {
		tenant = "owner " + owner
	}
	return &scanAccount{ctx: ctx, pool: s.scans, lease: s.scans.Lease(budget.Owner{Tenant: tenant}), turn: make(chan struct{}, 1)}
}

// Await implements scan.Account. Errors: those of Take.
func (a *scanAccount) Await(ctx context.Context, bytes int64) error {
	return a.acquire(ctx, bytes, a.pool.BytesMax()/scansLeave, func() { processor.Of(ctx).Idle() })
}

// Take implements scan.Account. It waits for bytes that others give back. Errors: a *scan.LimitError for more than
// there is, series.ErrOverloaded.
func (a *scanAccount) Take(bytes int64) error { return a.acquire(a.ctx, bytes, 0, func() {}) }

func (a *scanAccount) acquire(ctx context.Context, bytes, spare int64, before func()) error {
	switch err := a.lease.AcquireLeaving(ctx, bytes, spare, before); {
	case errors.Is(err, budget.ErrTooLarge):
		return &scan.LimitError{What: "bytes", Limit: a.pool.BytesMax()}
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%w: memory for scans of this node: %w", series.ErrOverloaded, err)
	}
	return nil
}

// Turn implements scan.Account.
func (a *scanAccount) Turn() chan struct{} { return a.turn }

// Give implements scan.Account.
func (a *scanAccount) Give(bytes int64) { a.lease.Release(bytes) }
