package opentsdb

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/shell"
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

// toAPIError returns the answer for any error of a request with this context.
func toAPIError(ctx context.Context, err error) *apiError {
	var api *apiError
	if errors.As(err, &api) {
		return api
	}
	e := &apiError{status: http.StatusInternalServerError, message: err.Error()}
	switch shell.Classify(ctx, err) {
	case shell.TooMuch:
		e.status = http.StatusRequestEntityTooLarge
	case shell.BodyTooLong:
		e.status, e.message = http.StatusRequestEntityTooLarge, shell.BodyText(err)
	case shell.Denied:
		e.status = http.StatusForbidden
	case shell.TimedOut:
		e.status, e.details = http.StatusGatewayTimeout, admission.ErrTimeout.Error()
		e.message = "Sorry, your query timed out. Please try filtering using more tags or decrease your time range."
	case shell.Canceled:
		e.status, e.message = http.StatusServiceUnavailable, context.Cause(ctx).Error()
	case shell.ClientGone:
		e.status, e.message = shell.StatusClientGone, "the client went away"
	case shell.Busy, shell.Unavailable:
		e.status = http.StatusServiceUnavailable
	case shell.Internal:
	}
	return e
}
