package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// When clients are told to come again.
const (
	retryAfter           = 50 * time.Millisecond // what hinders should pass soon
	retryAfterSeriesRate = time.Second
	retryAfterMax        = time.Hour
)

var (
	errCalls    = fmt.Errorf("%w: too many calls at once", series.ErrOverloaded)
	errMemory   = fmt.Errorf("%w: batches that are being written, and series that streams name, take all the memory that they may", series.ErrOverloaded)
	errStopping = fmt.Errorf("%w: this server is stopping", series.ErrUnavailable)
)

// kindPublicMax is the last kind that clients are told: what is beyond stays between
// the processes of a cluster.
const kindPublicMax = 31

// messageOf returns the message of an error as clients may see it.
func messageOf(err error) *tickmeshv1.Error {
	err = withKind(err)
	m := wire.FromError(err)
	switch {
	case m.GetKind() <= kindPublicMax:
	case errors.Is(err, series.ErrUnavailable), errors.Is(err, series.ErrEra), errors.Is(err, wire.ErrStaleMap):
		m.Kind = tickmeshv1.ErrorKind_ERROR_KIND_UNAVAILABLE
	default:
		m.Kind = tickmeshv1.ErrorKind_ERROR_KIND_INTERNAL
	}
	if m.GetRetryAfterMs() > 0 {
		return m
	}
	switch late := (*tenant.RateError)(nil); {
	case errors.As(err, &late):
		m.RetryAfterMs = uint32(min(max(late.RetryAfter, retryAfter), retryAfterMax).Milliseconds())
	case errors.Is(err, series.ErrSeriesRate):
		m.RetryAfterMs = uint32(retryAfterSeriesRate.Milliseconds())
	case m.GetKind() == tickmeshv1.ErrorKind_ERROR_KIND_UNAVAILABLE, m.GetKind() == tickmeshv1.ErrorKind_ERROR_KIND_OVERLOADED:
		m.RetryAfterMs = uint32(retryAfter.Milliseconds())
	}
	return m
}

// writeMessageOf is messageOf for errors of a Writer, of which an unknown one counts
// as series.ErrUnavailable. One without any kind is that too.
func writeMessageOf(ctx context.Context, err error) *tickmeshv1.Error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	m := messageOf(err)
	if m.GetKind() == tickmeshv1.ErrorKind_ERROR_KIND_INTERNAL && !errors.Is(err, wire.ErrInternal) {
		m.Kind, m.RetryAfterMs = tickmeshv1.ErrorKind_ERROR_KIND_UNAVAILABLE, uint32(retryAfter.Milliseconds())
	}
	return m
}

// statusOf returns what a handler returns for an error, nil for nil.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	return wire.Status(wire.ToError(messageOf(err)))
}

// withKind returns an error of package access the kind that clients are told.
func withKind(err error) error {
	denied := (*access.DeniedError)(nil)
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		return fmt.Errorf("%w: %w", wire.ErrUnauthenticated, err)
	case errors.As(err, &denied):
		return fmt.Errorf("%w: %w", wire.ErrDenied, err)
	case errors.Is(err, access.ErrBusy):
		return fmt.Errorf("%w: %w", series.ErrOverloaded, err)
	}
	return err
}
