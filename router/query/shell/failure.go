package shell

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// StatusClientGone is the status, in metrics and logs, of requests whose client went away:
// what nginx and Prometheus take for it. It is written to nobody.
const StatusClientGone = 499

// Failure is the kind of an error, by which a language chooses status and words.
type Failure int

// The kinds.
const (
	Internal    Failure = iota // anything else
	Denied                     // the caller has no right to it
	Busy                       // too much is going on: try again later
	TooMuch                    // the query reads or holds more than it may
	BodyTooLong                // of the request
	TimedOut                   // its time is up
	Canceled                   // an administrator ended it
	ClientGone                 // nobody waits for the answer
	Unavailable                // shards that nobody answers for, or a disk that takes no delete
)

// Classify returns the kind of an error of a query with this context, whose cause tells why
// it was ended.
func Classify(ctx context.Context, err error) Failure {
	var (
		denied  *access.DeniedError
		busy    *admission.BusyError
		limit   *scan.LimitError
		tooLong *http.MaxBytesError
	)
	switch {
	case errors.As(err, &denied):
		return Denied
	case errors.As(err, &busy):
		return Busy
	case errors.As(err, &limit):
		return TooMuch
	case errors.As(err, &tooLong):
		return BodyTooLong
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, admission.ErrTimeout):
			return TimedOut
		case errors.Is(cause, admission.ErrCanceled):
			return Canceled
		}
		return ClientGone
	}
	if errors.Is(err, series.ErrUnavailable) || errors.Is(err, series.ErrOverloaded) || errors.Is(err, series.ErrReadOnly) {
		return Unavailable
	}
	return Internal
}

// BodyText returns how long a body may be, for an error of the kind BodyTooLong.
func BodyText(err error) string {
	var tooLong *http.MaxBytesError
	if !errors.As(err, &tooLong) {
		return err.Error()
	}
	return fmt.Sprintf("the body of the request is longer than %d bytes", tooLong.Limit)
}
