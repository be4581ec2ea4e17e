package influxql

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/router/query/shell"
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

func toRequestError(ctx context.Context, err error) *requestError {
	var request *requestError
	if errors.As(err, &request) {
		return request
	}
	e := &requestError{status: http.StatusInternalServerError, message: err.Error()}
	switch shell.Classify(ctx, err) {
	case shell.Denied:
		e.status, e.message = http.StatusForbidden, "error authorizing query: "+err.Error()
	case shell.Busy, shell.Unavailable:
		e.status, e.retryAfter = http.StatusServiceUnavailable, true
	case shell.TimedOut, shell.Canceled, shell.ClientGone:
		e.status, e.message = shell.StatusClientGone, "the client went away"
	case shell.Internal, shell.TooMuch, shell.BodyTooLong:
	}
	return e
}

// explain returns the error that a statement's answer carries: why its context ended, where
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
