package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/parse"
)

// ErrRefused marks samples that no other try places.
var ErrRefused = errors.New("samples were refused")

// rulesOwner is who the memory of what rules write is charged to.
const rulesOwner = "rules"

// WriteRules writes what rules have evaluated for a database, as the HTTP port does what Prometheus sends. The request is
// a WriteRequest of remote write 1.0, decompressed. Errors: ErrRefused, where the other samples are written; all
// others may pass when it is written again, which does no harm.
func (s *Server) WriteRules(ctx context.Context, database string, request []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f := s.front
	account, err := f.account(&caller{principal: access.Anyone()}, []byte(database))
	if err != nil {
		return err
	}
	start := time.Now()
	owner := budget.Owner{Tenant: rulesOwner}
	b := f.bodies.Get().(*body)
	b.owner, b.lease = owner, f.budgets.Writes.Lease(owner)
	defer f.restBody(b)
	b.expands(len(request))
	fl, err := f.takeWrite(b)
	if err != nil {
		f.metrics.failures.noteEarly(err)
		return err
	}
	defer f.workers.rest(fl)
	pm := &f.metrics.protocols[protocolRules]
	pm.bytes.Add(int64(len(request)))
	r, err := f.place(protocolRules, fl, target{[]byte(database), account}, f.options.Limits.WriteTimeout, func() error {
		return parse.RemoteWrite(&fl.worker.batch, request, parse.RemoteWrite1, f.options.Limits.Line)
	})
	account.Wrote(r.accepted, r.refused, r.failed, len(request))
	pm.seconds.Observe(time.Since(start).Seconds())
	if err != nil && !retryable(err) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		return err
	}
	return refusedOf(fl.batch(), r)
}

// refusedOf returns why points of a write were left out, or nil.
func refusedOf(b *parse.Batch, r result) error {
	if r.refused == 0 {
		return nil
	}
	text := ""
	if len(b.Errors) > 0 {
		text = ": " + strings.ToValidUTF8(string(b.Errors[0].AppendTo(nil)), "\uFFFD")
	}
	return fmt.Errorf("%w: %d of %d%s", ErrRefused, r.refused, r.refused+r.accepted, text)
}
