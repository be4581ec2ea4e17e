package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Kinds of errors, for errors.Is. A query that met a limit is a *scan.LimitError, for
// errors.As.
var (
	// ErrOptions: options, or a series, that cannot work.
	ErrOptions = errors.New("client options")
	// ErrClosed: the client or the writer is closed.
	ErrClosed = errors.New("closed")
	// ErrBufferFull: the writer's buffer has no room and the writer may not wait.
	ErrBufferFull = errors.New("the writer's buffer is full")
	// ErrPartial: an answer lacks shards; only where that was allowed. See
	// *PartialError.
	ErrPartial = errors.New("the answer is not complete")

	// ErrUnavailable: no server answers, or too few replicas. It may pass.
	ErrUnavailable = series.ErrUnavailable
	// ErrOverloaded: a queue of the server is at its bound. It may pass.
	ErrOverloaded = series.ErrOverloaded
	// ErrReadOnly: a disk is full, read-only or failing.
	ErrReadOnly = series.ErrReadOnly
	// ErrSeriesLimit: there may be no more series.
	ErrSeriesLimit = series.ErrSeriesLimit
	// ErrSeriesRate is the ErrSeriesLimit that passes by itself: too many new series
	// a second.
	ErrSeriesRate = series.ErrSeriesRate
	// ErrBatchOld: nobody knows any more whether the batch was written.
	ErrBatchOld = series.ErrBatchOld
	// ErrInvalid: the request is wrong and stays wrong.
	ErrInvalid = wire.ErrInvalid
	// ErrNotFound: what is named does not exist.
	ErrNotFound = wire.ErrNotFound
	// ErrRefused: the cluster is not in a state in which this may be done.
	ErrRefused = wire.ErrRefused
	// ErrVersion: client and server do not go together.
	ErrVersion = wire.ErrVersion
	// ErrUnauthenticated: the server does not know who calls.
	ErrUnauthenticated = wire.ErrUnauthenticated
	// ErrDenied: the caller is known and has not the right.
	ErrDenied = wire.ErrDenied
	// ErrInternal: a fault of the server.
	ErrInternal = wire.ErrInternal
)

// PartialError describes which shards an answer lacks.
type PartialError struct{ Shards []uint32 }

// Error returns the text for people.
func (e *PartialError) Error() string {
	return fmt.Sprintf("%v: %d shards do not answer", ErrPartial, len(e.Shards))
}

// Is reports whether the error is ErrPartial.
func (e *PartialError) Is(target error) bool { return target == ErrPartial }

// RefusedError reports that the samples of one series were left out of a batch.
type RefusedError struct {
	Series *Series
	Points int
	Err    error
}

// Error returns the text for people.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%d points of %v are refused: %v", e.Points, e.Series, e.Err)
}

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// WriteError describes what a Writer could not write since it was last asked.
type WriteError struct {
	// Points that were refused, or of which nobody knows whether they were written.
	Points int64
	// Errors has the first ones; there were Total.
	Errors []error
	Total  int
}

// Error returns the text for people.
func (e *WriteError) Error() string {
	return fmt.Sprintf("%d points may not have been written, %d errors, the first: %v", e.Points, e.Total, e.Errors[0])
}

// Unwrap returns the first errors.
func (e *WriteError) Unwrap() []error { return e.Errors }

// errorOf returns what a call ended with: a *wire.Error, or a context's error. Streams
// that end early are a kind of ErrUnavailable.
func errorOf(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the server ended the stream", ErrUnavailable)
	}
	// A connection that breaks in the middle of a call is Unavailable or, from some
	// depths of gRPC, Internal without our details.
	if s, ok := status.FromError(err); ok && s.Code() == codes.Internal && len(s.Details()) == 0 {
		return fmt.Errorf("%w: %s", ErrUnavailable, s.Message())
	}
	// A server that sees the end of a call before its client has seen it resets the stream: gRPC knows why.
	if s, ok := status.FromError(err); ok && s.Code() == codes.DeadlineExceeded && strings.HasPrefix(s.Message(), "stream terminated by RST_STREAM") {
		return context.DeadlineExceeded
	}
	return wire.FromStatus(err)
}

// mayPass reports whether to try again.
func mayPass(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOverloaded) || errors.Is(err, ErrSeriesRate) || errors.Is(err, context.DeadlineExceeded)
}

// retryAfterOf returns how long the server asks to wait; 0: it does not say.
func retryAfterOf(err error) time.Duration {
	var e *wire.Error
	if errors.As(err, &e) {
		return time.Duration(e.RetryAfterMs) * time.Millisecond
	}
	return 0
}

// refusalOf returns the error of a refused series.
func refusalOf(m *tickmeshv1.RefusedSeries) error {
	if m.GetError() == nil {
		return fmt.Errorf("%w: a refusal without a reason", ErrInternal)
	}
	return wire.ToError(m.GetError())
}
