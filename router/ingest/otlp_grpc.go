package ingest

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// OTLPMessage is an ExportMetricsServiceRequest in protobuf that came over gRPC.
type OTLPMessage struct {
	Owner    budget.Owner // of its memory
	Caller   access.Principal
	Database string
	Body     []byte // valid, and charged, during the call
}

// ExportOTLP writes a message as the HTTP port does, and returns the ExportMetricsServiceResponse. Errors are
// statuses of gRPC.
func (s *Server) ExportOTLP(_ context.Context, m OTLPMessage) ([]byte, error) {
	f := s.front
	account, err := f.account(&caller{principal: m.Caller}, []byte(m.Database))
	if err != nil {
		return nil, otlpError(err)
	}
	f.options.Processors.Small()
	start := time.Now()
	b := f.bodies.Get().(*body)
	b.owner, b.lease = m.Owner, f.budgets.Writes.Lease(m.Owner)
	defer f.restBody(b)
	b.expands(len(m.Body))
	fl, err := f.takeWrite(b)
	if err != nil {
		f.metrics.failures.noteEarly(err)
		return nil, otlpError(err)
	}
	defer f.workers.rest(fl)
	pm := &f.metrics.protocols[protocolOTLPGRPC]
	pm.bytes.Add(int64(len(m.Body)))
	r, err := f.place(protocolOTLPGRPC, fl, target{[]byte(m.Database), account}, f.options.Limits.WriteTimeout, func() error {
		return parse.OTLP(&fl.worker.batch, m.Body, f.options.Limits.Line)
	})
	account.Wrote(r.accepted, r.refused, r.failed, len(m.Body))
	pm.seconds.Observe(time.Since(start).Seconds())
	if err != nil {
		return nil, otlpError(err)
	}
	rejected, message := otlpRefusals(fl.batch())
	return otlpResponse(rejected, message, false), nil
}

// otlpError returns the status of an error of a write. One that a rate has caused says when to come again.
func otlpError(err error) error {
	s := status.New(otlpCode(refusal.Status(err)), strings.ToValidUTF8(refusal.Message(err), "\uFFFD"))
	if late := (*tenant.RateError)(nil); errors.As(err, &late) {
		if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(late.RetryAfter)}); err == nil {
			s = detailed
		}
	}
	return s.Err()
}
