package promql

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/prometheus/promql"

	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/shell"
)

// apiError is an answer in Prometheus' error shape.
type apiError struct {
	status int
	kind   string // errorType
	err    error
}

func (e *apiError) Error() string { return e.err.Error() }
func (e *apiError) Unwrap() error { return e.err }

// Error types: Prometheus' own, in web/api/v1/api.go, and forbidden.
const (
	kindBadData     = "bad_data"
	kindExecution   = "execution"
	kindTimeout     = "timeout"
	kindCanceled    = "canceled"
	kindUnavailable = "unavailable"
	kindInternal    = "internal"
	kindNotFound    = "not_found"
	kindForbidden   = "forbidden"
)

func badData(err error) error {
	return &apiError{status: http.StatusBadRequest, kind: kindBadData, err: err}
}

// invalidParameter is how Prometheus names the parameter that is wrong.
func invalidParameter(err error, name string) error {
	return badData(fmt.Errorf("invalid parameter %q: %w", name, err))
}

// sourceError marks what the storage says, so that it is told from errors of evaluation.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

func fromSource(err error) error {
	if err == nil {
		return nil
	}
	return &sourceError{err}
}

// toAPIError returns how an error is answered. The context is that of the query: its cause
// tells why it was ended.
func toAPIError(ctx context.Context, err error) *apiError {
	var api *apiError
	if errors.As(err, &api) {
		return api
	}
	answer := func(status int, kind string) *apiError { return &apiError{status, kind, err} }
	var (
		storage  *sourceError
		tooMany  promql.ErrTooManySamples
		canceled promql.ErrQueryCanceled
		timeout  promql.ErrQueryTimeout
	)
	kind, cause := shell.Classify(ctx, err), context.Cause(ctx)
	switch {
	case kind == shell.Denied:
		return answer(http.StatusForbidden, kindForbidden)
	case kind == shell.Busy, kind == shell.Unavailable:
		return answer(http.StatusServiceUnavailable, kindUnavailable)
	case kind == shell.TooMuch, errors.As(err, &tooMany), errors.Is(err, errSameLabels):
		return answer(http.StatusUnprocessableEntity, kindExecution)
	// The engine has errors of its own for a context that ended: its cause tells.
	case errors.Is(cause, admission.ErrTimeout):
		return &apiError{http.StatusServiceUnavailable, kindTimeout, admission.ErrTimeout}
	case errors.Is(cause, admission.ErrCanceled):
		return &apiError{http.StatusServiceUnavailable, kindCanceled, cause}
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return answer(http.StatusServiceUnavailable, kindTimeout)
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return answer(shell.StatusClientGone, kindCanceled)
	case errors.As(err, &storage):
		return answer(http.StatusInternalServerError, kindInternal)
	}
	return answer(http.StatusUnprocessableEntity, kindExecution)
}

// expanding returns an error of what was read, in the engine's words.
func expanding(err error) error { return fmt.Errorf("expanding series: %w", err) }
