package admission

import "errors"

// BusyError reports that a query cannot be served now and may be tried again: over HTTP it
// is 503 with Retry-After.
type BusyError struct{ Reason string }

func (e *BusyError) Error() string { return e.Reason + ": try again later" }

// Why a query's context ended, as context.Cause returns it.
var (
	// ErrTimeout: the query ran into its time limit.
	ErrTimeout = errors.New("the query took longer than its time limit: narrow its time range or its filters, or raise the limit")
	// ErrCanceled: somebody ended the query by Controller.Cancel.
	ErrCanceled = errors.New("the query was ended by an administrator")
	// ErrSignedOut: who asked is nobody any more, as a token was revoked or expired, or the auth file has changed. It is an
	// ErrCanceled.
	ErrSignedOut error = signedOutError{}
)

type signedOutError struct{}

func (signedOutError) Error() string {
	return "the query was ended, as the credentials that it came with do not hold any more: sign in again"
}

// Is makes it an ErrCanceled.
func (signedOutError) Is(target error) bool { return target == ErrCanceled }
