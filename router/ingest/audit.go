package ingest

import (
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
)

// auditStart returns when a request begins, where there is an audit log.
func (f *front) auditStart() (start time.Time) {
	if f.options.Audit != nil {
		start = time.Now()
	}
	return start
}

// audit writes to the audit log a request that was not handed to Options.Other: those that were
// refused, and others that are neither writes nor probes where all are wanted. Err is that of admit.
func (f *front) audit(h head, status int, c *caller, err error, start time.Time) {
	if f.options.Audit == nil || c.request != nil {
		return
	}
	refused := status == fasthttp.StatusUnauthorized || status == fasthttp.StatusForbidden
	if !refused && (!f.options.Audit.Wants() || f.dialects[string(h.path())] != nil || isOpen(h)) {
		return
	}
	if err == nil {
		err = c.refusal
	}
	e := auditEvent(h, c, start)
	if c.principal == nil {
		e.Tried(err)
	}
	if err != nil {
		e.Error = err.Error()
	}
	if denied := (*access.DeniedError)(nil); errors.As(err, &denied) {
		e.Database = access.Display(denied.Database)
	}
	access.EndHTTP(&e, status)
	f.options.Audit.Finish(nil, e)
}

// auditOther returns what tells the audit log of the end of a request of Options.Other.
func (f *front) auditOther(h head, c *caller) func(status int) {
	if f.options.Audit == nil || isOpen(h) {
		return func(int) {}
	}
	e, gathered := auditEvent(h, c, time.Now()), c.request
	return func(status int) {
		access.EndHTTP(&e, status)
		f.options.Audit.Finish(gathered, e)
	}
}

// auditEvent returns the event of a request that has not ended. The target counts as it was sent,
// without its parameters.
func auditEvent(h head, c *caller, start time.Time) audit.Event {
	e := audit.Event{
		Time: start, From: h.from().String(), Protocol: access.AuditHTTP,
		Action: h.method() + " " + string(h.path()),
	}
	if c.principal != nil {
		e.User = c.principal.Name()
		e.By, e.Credential = access.ProofOf(c.principal)
	}
	if c.prefixed {
		e.Database = access.Display(string(c.database))
	}
	return e
}
