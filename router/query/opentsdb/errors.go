package opentsdb

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/ledger"
)

// apiError is an error with its place in OpenTSDB's error shape.
type apiError struct {
	status  int
	message string
	details string
}

func (e *apiError) Error() string { return e.message }

// invalid is what is wrong with a request: status 400.
func invalid(format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

// noSuchName is OpenTSDB's NoSuchUniqueName.
func noSuchName(kind, name string, status int) *apiError {
	return &apiError{status: status, message: fmt.Sprintf("No such name for '%s': '%s'", kind, name)}
}

// statusClientGone is written to nobody; it is the status of requests whose
// client went away, in metrics and logs, as other servers have it.
const statusClientGone = 499

// toAPIError gives the answer for any error of a request with this context.
func toAPIError(ctx context.Context, err error) *apiError {
	var api *apiError
	var limit *scan.LimitError
	var tooLong *http.MaxBytesError
	var denied *access.DeniedError
	var busy *ledger.BusyError
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &limit):
		return &apiError{status: http.StatusRequestEntityTooLarge, message: limit.Error()}
	case errors.As(err, &tooLong):
		return &apiError{status: http.StatusRequestEntityTooLarge,
			message: fmt.Sprintf("the body of the request is longer than %d bytes", tooLong.Limit)}
	case errors.As(err, &denied):
		return &apiError{status: http.StatusForbidden, message: denied.Error()}
	case errors.As(err, &busy):
		return &apiError{status: http.StatusServiceUnavailable, message: busy.Error()}
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), ledger.ErrTimeout):
		return &apiError{status: http.StatusGatewayTimeout,
			message: "Sorry, your query timed out. Please try filtering using more tags or decrease your time range.", details: ledger.ErrTimeout.Error()}
	case errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), ledger.ErrCanceled):
		return &apiError{status: http.StatusServiceUnavailable, message: ledger.ErrCanceled.Error()}
	case (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) && ctx.Err() != nil:
		return &apiError{status: statusClientGone, message: "the client went away"}
	case errors.Is(err, series.ErrUnavailable), errors.Is(err, series.ErrOverloaded):
		return &apiError{status: http.StatusServiceUnavailable, message: err.Error()}
	}
	return &apiError{status: http.StatusInternalServerError, message: err.Error()}
}
