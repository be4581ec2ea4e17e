package api

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/scan"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

const auditGRPC = "grpc"

// signInError is the status of a sign-in that failed, and for the audit log why.
type signInError struct {
	error
	cause error
}

// GRPCStatus is what package status asks for.
func (e *signInError) GRPCStatus() *status.Status { return status.Convert(e.error) }

// Unwrap returns the cause.
func (e *signInError) Unwrap() error { return e.cause }

func statusOfSignIn(err error) error { return &signInError{statusOf(err), err} }

// audit writes a call that has ended to the audit log; gathered is nil where it was not let in.
func (s *Server) audit(ctx context.Context, method string, gathered *audit.Request, start time.Time, err error) {
	if s.options.Audit == nil {
		return
	}
	e := audit.Event{Time: start, Protocol: auditGRPC, Action: method, Outcome: audit.OK, Status: status.Code(err).String()}
	e.Tried(err)
	e.DurationMs = float64(time.Since(start)) / float64(time.Millisecond)
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		e.From = p.Addr.String()
	}
	if access.Known(ctx) {
		e.User = access.Of(ctx).Name()
		e.By, e.Credential = access.ProofOf(access.Of(ctx))
	}
	switch code := status.Code(err); code {
	case codes.OK:
	case codes.Unauthenticated, codes.PermissionDenied:
		e.Outcome = audit.Refused
	default:
		e.Outcome = audit.Failed
	}
	if err != nil {
		e.Error = status.Convert(err).Message()
	}
	if isAdministration(method) {
		gathered.Did(audit.Deed{Do: "administration"}, err)
	}
	if isWrite(method) && (e.Outcome != audit.Refused || gathered.Noted()) {
		return // writes of points are not told one by one, and what was refused was told at once
	}
	s.options.Audit.Finish(gathered, e)
}

// gather returns what gathers what a call does. A stream of writes may last for days: its first
// refusal is told at once.
func (s *Server) gather(ctx context.Context, method string, start time.Time) *audit.Request {
	gathered := new(audit.Request)
	if isWrite(method) {
		gathered.OnRefusal = func(err error) { s.audit(ctx, method, nil, start, statusOf(err)) }
	}
	return gathered
}

// isAdministration reports whether a method changes more than data.
func isAdministration(method string) bool {
	switch method {
	case tickmeshv1.ClusterService_Drain_FullMethodName, tickmeshv1.ClusterService_Undrain_FullMethodName, tickmeshv1.ClusterService_Recover_FullMethodName:
		return true
	}
	return false
}

// Bounds of what is remembered of bulk reads.
const (
	bulkReadsMax  = 1024
	bulkReadPause = 10 * time.Minute
)

// bulkReads remembers who reads all series of metrics, as backups and exports do metric by
// metric: such reads count as one until there was a pause.
type bulkReads struct {
	mu   sync.Mutex
	last map[bulkRead]time.Time
}

type bulkRead struct {
	owner    budget.Owner
	database string
}

// begins reports whether a read is the first one behind a pause.
func (b *bulkReads) begins(r bulkRead, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, known := b.last[r]
	if b.last == nil || len(b.last) >= bulkReadsMax && !known {
		b.last = map[bulkRead]time.Time{} // those that go on are told once more
	}
	b.last[r] = now
	return !known || now.Sub(before) >= bulkReadPause
}

// auditBulkRead notes a read of all samples of a metric, or of all metrics.
func (s *Server) auditBulkRead(ctx context.Context, r *scan.Request) {
	gathered := audit.Of(ctx)
	if gathered == nil {
		return
	}
	database := access.Display(access.Canonical(r.Selector.Database))
	gathered.In(database)
	if len(r.Selector.Matchers) > 0 || r.Windows != nil {
		return
	}
	read := bulkRead{database: database}
	if c := callOf(ctx); c != nil {
		read.owner = c.owner
	}
	if s.bulk.begins(read, time.Now()) {
		gathered.Did(audit.Deed{Do: "bulk read", On: r.Selector.Metric, Database: database}, nil)
	}
}
