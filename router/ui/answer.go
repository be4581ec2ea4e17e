package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// dialect is how admission control names what the page itself asks.
const dialect = "ui"

// failure is an error with the status that it is answered with.
type failure struct {
	status  int
	message string
}

func (f *failure) Error() string { return f.message }

func badRequest(format string, args ...any) error {
	return &failure{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func nowhere(r *http.Request) (any, error) {
	return nil, &failure{http.StatusNotFound, "the page knows nothing at " + r.URL.Path}
}

// answering returns the handler of a function: what it returns is written as JSON.
func (h *handler) answering(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Type", "application/json")
		value, err := f(r)
		if err == nil {
			var body []byte
			if body, err = json.Marshal(value); err == nil {
				_, _ = w.Write(append(body, '\n')) // a reader that has gone needs nothing
				return
			}
		}
		status := statusOf(err)
		switch {
		case status == http.StatusInternalServerError:
			h.Logger.LogAttrs(r.Context(), slog.LevelError, "the page was not answered", slog.String("path", r.URL.Path), slog.String("error", err.Error()))
		case status == http.StatusServiceUnavailable:
			header.Set("Retry-After", "1")
		}
		w.WriteHeader(status)
		body, _ := json.Marshal(map[string]string{"error": err.Error()})
		_, _ = w.Write(append(body, '\n'))
	}
}

func statusOf(err error) int {
	var f *failure
	var denied *access.DeniedError
	var busy *admission.BusyError
	var limit *scan.LimitError
	switch {
	case errors.As(err, &f):
		return f.status
	case errors.As(err, &denied):
		return http.StatusForbidden
	case errors.As(err, &limit):
		return http.StatusRequestEntityTooLarge
	case errors.As(err, &busy), errors.Is(err, series.ErrUnavailable), errors.Is(err, series.ErrOverloaded),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// reading runs what reads a database, in admission control of queries and with the caller's right.
// What is read is told for people.
func (h *handler) reading(r *http.Request, what string, f func(ctx context.Context, database string) (any, error)) (value any, err error) {
	database, err := access.Database(r, nil)
	if err != nil {
		return nil, badRequest("%s", err)
	}
	if err := access.Check(r.Context(), database, access.Read); err != nil {
		return nil, err
	}
	ctx, entry, err := h.Admission.Begin(r.Context(), admission.Query{
		Dialect: dialect, Database: database, Text: what, User: access.Of(r.Context()).Name(),
	})
	if err != nil {
		return nil, err
	}
	defer func() { entry.End(err) }()
	return f(ctx, database)
}
