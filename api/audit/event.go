package audit

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Outcome is how a request ended.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Refused Outcome = "refused" // the caller is unknown, or a right is missing
	Failed  Outcome = "failed"
)

// Event is one line of the log. Empty members are left out.
type Event struct {
	Time time.Time `json:"time"` // of its begin, in UTC
	// User is the name of who called; of a sign-in that failed, the user whose password was
	// wrong, where there is such a user, or who made the token that was refused.
	User       string `json:"user,omitempty"`
	By         string `json:"by,omitempty"`         // password, token, certificate or oidc
	Credential string `json:"credential,omitempty"` // the id of the token, the name in the certificate, or the issuer
	From       string `json:"from,omitempty"`       // address and port
	Protocol   string `json:"protocol"`             // http, grpc, tcp_put, …
	Action     string `json:"action"`               // method and path, without parameters
	Database   string `json:"database,omitempty"`   // as people name it
	Deeds      []Deed `json:"deeds,omitempty"`
	// Outcome and Status are how it ended: Status in the words of the protocol.
	Outcome    Outcome `json:"outcome"`
	Status     string  `json:"status,omitempty"`
	Error      string  `json:"error,omitempty"`
	DurationMs float64 `json:"duration_ms"`
}

// Deed is one thing that a request did.
type Deed struct {
	Do       string `json:"do"`
	On       string `json:"on,omitempty"` // what it was done to, where that is no database
	Database string `json:"database,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Bounds of what is kept of one request.
const (
	deedsMax     = 64
	textBytesMax = 512
)

// Request gathers what one request does. Its methods do nothing on nil, and are safe for
// concurrent use.
type Request struct {
	OnRefusal func(error) // called for the first refusal, which Finish then leaves out; nil: nothing is

	mu               sync.Mutex
	user             string
	by, credential   string
	database         string
	deeds            []Deed
	unknown, refused error
	failed           bool
}

type requestKey struct{}

// With returns a context that carries the request.
func With(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// Of returns the request of a context; nil: nothing is gathered.
func Of(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// SignedIn notes who calls, as Event has it.
func (r *Request) SignedIn(user, by, credential string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.user, r.by, r.credential = user, by, credential
}

// SignInFailed notes why a caller could not be identified.
func (r *Request) SignInFailed(err error) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unknown = err
}

// In notes the database that the request is for, as people name it.
func (r *Request) In(database string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.database = cut(database)
}

// Did notes that something was done, or tried. The same again replaces what was noted.
func (r *Request) Did(d Deed, err error) {
	if r == nil {
		return
	}
	d.On, d.Database = cut(d.On), cut(d.Database)
	if err != nil {
		d.Error = cut(err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || err != nil
	for i := range r.deeds {
		if old := &r.deeds[i]; old.Do == d.Do && old.On == d.On && old.Database == d.Database {
			*old = d
			return
		}
	}
	if len(r.deeds) < deedsMax {
		r.deeds = append(r.deeds, d)
	}
}

// Refuse notes that a right is missing, whatever the answer is.
func (r *Request) Refuse(err error) {
	if r == nil {
		return
	}
	r.mu.Lock()
	first := r.refused == nil
	if first {
		r.refused = err
	}
	r.mu.Unlock()
	if first && r.OnRefusal != nil {
		r.OnRefusal(err)
	}
}

// Noted reports whether there is a deed or a refusal.
func (r *Request) Noted() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.deeds) > 0 || r.refused != nil
}

// finish puts what was gathered into an event, and reports whether that is worth a line by itself.
func (r *Request) finish(e *Event) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.user != "" {
		e.User, e.By, e.Credential = r.user, r.by, r.credential
	}
	if r.unknown != nil {
		e.Error = r.unknown.Error()
		e.Tried(r.unknown)
	}
	if r.database != "" {
		e.Database = r.database
	}
	e.Deeds = append([]Deed(nil), r.deeds...)
	switch {
	case r.refused != nil && r.OnRefusal == nil:
		e.Outcome, e.Error = Refused, r.refused.Error()
	case r.failed && e.Outcome == OK:
		e.Outcome = Failed
	}
	return len(r.deeds) > 0 || r.refused != nil && r.OnRefusal == nil
}

// SignInError is the error of a sign-in of which it is known whose it would have been: the
// password of a user that exists is wrong, or a token is refused. Callers hear the error behind
// it, which does not tell that.
type SignInError struct {
	User           string
	By, Credential string // as Event has them
	Err            error
}

// Error implements error.
func (e *SignInError) Error() string { return e.Err.Error() }

// Unwrap returns the error behind it.
func (e *SignInError) Unwrap() error { return e.Err }

// Tried notes whose a sign-in that failed would have been, where the error has that.
func (e *Event) Tried(err error) {
	if failed := (*SignInError)(nil); errors.As(err, &failed) {
		e.User, e.By, e.Credential = failed.User, failed.By, failed.Credential
	}
}

func cut(text string) string {
	if len(text) > textBytesMax {
		return text[:textBytesMax] + "…"
	}
	return text
}
