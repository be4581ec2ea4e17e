package influxql

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/ledger"
)

// requestError is an error of a request as a whole, with its status.
type requestError struct {
	status     int
	message    string
	retryAfter bool
}

func (e *requestError) Error() string { return e.message }

// invalid is what is wrong with a request: status 400.
func invalid(format string, args ...any) *requestError {
	return &requestError{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

// statusClientGone is written to nobody; it is the status of requests whose client went
// away, in metrics.
const statusClientGone = 499

func toRequestError(ctx context.Context, err error) *requestError {
	var request *requestError
	var denied *access.DeniedError
	var busy *ledger.BusyError
	switch {
	case errors.As(err, &request):
		return request
	case errors.As(err, &denied):
		return &requestError{status: http.StatusForbidden, message: "error authorizing query: " + denied.Error()}
	case errors.As(err, &busy):
		return &requestError{status: http.StatusServiceUnavailable, message: busy.Error(), retryAfter: true}
	case ctx.Err() != nil:
		return &requestError{status: statusClientGone, message: "the client went away"}
	case errors.Is(err, series.ErrUnavailable), errors.Is(err, series.ErrOverloaded):
		return &requestError{status: http.StatusServiceUnavailable, message: err.Error(), retryAfter: true}
	}
	return &requestError{status: http.StatusInternalServerError, message: err.Error()}
}

// explain gives the error that a statement's answer carries: why its context ended, where
// that is the reason.
func explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return cause
	}
	return err
}

// databaseNotFound is InfluxDB's error.
func databaseNotFound(name string) error {
	return fmt.Errorf("database not found: %s", access.Display(name))
}
