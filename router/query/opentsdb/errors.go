package opentsdb

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
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

// toAPIError gives the answer for any error. Timeout is the limit that a
// deadline stands for.
func toAPIError(ctx context.Context, err error, limits Limits) *apiError {
	var api *apiError
	var limit *scan.LimitError
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &limit):
		return &apiError{status: http.StatusRequestEntityTooLarge, message: limit.Error()}
	case errors.As(err, &tooLong):
		return &apiError{status: http.StatusRequestEntityTooLarge,
			message: fmt.Sprintf("the body of the request is longer than %d bytes", tooLong.Limit)}
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &apiError{status: http.StatusGatewayTimeout, message: fmt.Sprintf(
			"Sorry, your query timed out. Time limit: %s. Please try filtering using more tags or decrease your time range.", limits.Timeout)}
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return &apiError{status: statusClientGone, message: "the client went away"}
	case errors.Is(err, series.ErrUnavailable), errors.Is(err, series.ErrOverloaded):
		return &apiError{status: http.StatusServiceUnavailable, message: err.Error()}
	}
	return &apiError{status: http.StatusInternalServerError, message: err.Error()}
}
