// Package refusal says what an error of a request is to its client and to operators: a status, a kind, and a text. What
// may pass is 503, and its text asks to send the request again. It knows no protocol, connection or worker: each dialect
// puts status and text into a form of its own.
package refusal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/origin"
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// Kinds of errors of a request, besides those of its body.
var (
	ErrMethod      = errors.New("method not allowed")
	ErrArgument    = errors.New("bad argument")
	ErrContentType = errors.New("unknown Content-Type")
	ErrNoContent   = errors.New("no content")
)

// Kinds of errors of a request's body.
var (
	ErrBodyTooLarge = errors.New("the request's body is too large")
	ErrBodyEncoding = errors.New("unknown Content-Encoding")
	ErrBodyCorrupt  = errors.New("the request's body cannot be decompressed")
	ErrBodyRead     = errors.New("the request's body did not arrive whole")
	ErrSlowHeader   = errors.New("the request's header did not arrive in time")
)

// ErrMemory is returned when all in-flight bytes are taken.
var ErrMemory = fmt.Errorf("%w: too many bytes in flight", series.ErrOverloaded)

// ErrWorkers is returned when all workers are at work.
var ErrWorkers = fmt.Errorf("%w: too many writes at work", series.ErrOverloaded)

// Status returns the status code of an error that concerns a whole request.
// What another try may cure is 503: several clients throw away what they were
// sending on any 4xx.
func Status(err error) int {
	if status := origin.StatusOf(err); status != 0 {
		return status
	}
	switch denied := (*access.DeniedError)(nil); {
	case errors.Is(err, access.ErrUnauthenticated):
		return http.StatusUnauthorized
	case errors.As(err, &denied):
		return http.StatusForbidden
	case errors.Is(err, ErrMethod):
		return http.StatusMethodNotAllowed
	case errors.Is(err, ErrBodyTooLarge), errors.Is(err, parse.ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, ErrBodyEncoding), errors.Is(err, ErrContentType):
		return http.StatusUnsupportedMediaType
	case errors.Is(err, ErrBodyRead) && errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusServiceUnavailable // a slow network may be faster next time
	case errors.Is(err, ErrBodyRead), errors.Is(err, ErrBodyCorrupt), errors.Is(err, parse.ErrMalformed),
		errors.Is(err, ErrArgument), errors.Is(err, ErrNoContent), errors.Is(err, access.ErrDatabase), errors.Is(err, series.ErrBatch):
		return http.StatusBadRequest
	default:
		return http.StatusServiceUnavailable
	}
}

// Message words an error of a whole request for clients.
func Message(err error) string {
	if Status(err) == http.StatusServiceUnavailable {
		return Explain(err)
	}
	return err.Error()
}

// OneLine makes a text fit for a header.
func OneLine(text string) string {
	const bytesMax = 512
	if len(text) > bytesMax {
		text = text[:bytesMax]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

// Kind is the kind of an error of a write as a whole; String is its label in metrics.
type Kind uint8

const (
	Unavailable Kind = iota
	Overloaded
	ReadOnly
	SeriesLimit
	SeriesRate
	TimedOut
	SampleRate
	Malformed
	// Of requests of which nothing was parsed:
	NoMemory
	NoWorker
	SlowBody
	SlowHeader
	SignIns
	Kinds // how many there are
)

var names = [Kinds]string{ //nolint:gochecknoglobals // a constant table
	"unavailable", "overloaded", "read_only", "series_limit", "series_rate", "timeout", "sample_rate", "malformed",
	"memory", "workers", "slow_body", "slow_header", "sign_ins",
}

// String returns the label of the kind in metrics and logs.
func (k Kind) String() string { return names[k] }

// KindOf classifies an error of a write.
func KindOf(err error) Kind {
	switch late := (*tenant.RateError)(nil); {
	case errors.As(err, &late):
		return SampleRate
	case errors.Is(err, ErrMemory), errors.Is(err, budget.ErrTooLarge):
		return NoMemory
	case errors.Is(err, ErrWorkers):
		return NoWorker
	case errors.Is(err, ErrBodyRead):
		return SlowBody
	case errors.Is(err, ErrSlowHeader):
		return SlowHeader
	case errors.Is(err, access.ErrBusy):
		return SignIns
	case errors.Is(err, series.ErrBatch):
		return Malformed
	case errors.Is(err, series.ErrReadOnly):
		return ReadOnly
	case errors.Is(err, series.ErrSeriesRate):
		return SeriesRate
	case errors.Is(err, series.ErrSeriesLimit):
		return SeriesLimit
	case errors.Is(err, series.ErrOverloaded):
		return Overloaded
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	default:
		return Unavailable
	}
}

// Explain words an error of a write for clients. The words never hold "partial
// write" or "hinted handoff queue not empty", which Telegraf takes for success.
func Explain(err error) string {
	if copies := (*series.CopiesError)(nil); errors.As(err, &copies) {
		return copies.Error() + "; sent again with the same Idempotency-Key it waits for them and writes nothing twice"
	}
	if errors.Is(err, access.ErrBusy) {
		return err.Error()
	}
	switch KindOf(err) {
	case SampleRate:
		return "too fast: " + harmless(err) + "; please send this request again later"
	case SeriesRate:
		return "not all was taken: " + harmless(err) + ", please send this request again: the same points twice do no harm"
	case ReadOnly:
		return "the storage takes no writes now: " + harmless(err)
	case SeriesLimit:
		return "no room for new series now: " + harmless(err)
	case Overloaded, NoMemory, NoWorker:
		return "overloaded, please send this request again later: the same points twice do no harm"
	case TimedOut:
		return "the write took too long, please send it again: the same points twice do no harm (" + harmless(err) + ")"
	case SlowBody, SlowHeader:
		return harmless(err)
	default:
		return "unavailable now, please send this request again: " + harmless(err)
	}
}

// harmless returns the text of an error without the words that clients misread.
func harmless(err error) string {
	text := err.Error()
	for _, misread := range []string{"partial write", "hinted handoff queue not empty"} {
		text = strings.ReplaceAll(text, misread, "incomplete write")
	}
	return text
}

// Retryable reports whether an error may pass without the client's help, so that a
// port without answers tries again.
func Retryable(err error) bool {
	if errors.Is(err, series.ErrBatch) {
		return false
	}
	return !errors.Is(err, series.ErrSeriesLimit) || errors.Is(err, series.ErrSeriesRate)
}
