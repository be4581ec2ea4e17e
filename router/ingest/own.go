package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// ErrRefused marks samples that no other try places.
var ErrRefused = errors.New("samples were refused")

// Who the memory of what this server writes itself is charged to.
const (
	rulesOwner = "rules"
	mqttOwner  = "mqtt"
	intoOwner  = "select_into"
	// MQTTOwner is that of messages of MQTT that wait to be written. It is another one, as messages may take all that an owner
	// may hold, and go only when they are written.
	MQTTOwner = "mqtt_messages"
)

// WriteRules writes what rules have evaluated for a database, as the HTTP port does what Prometheus sends. The request is
// a WriteRequest of remote write 1.0, decompressed. Errors: ErrRefused, where the other samples are written; all
// others may pass when it is written again, which does no harm.
func (s *Server) WriteRules(ctx context.Context, database string, request []byte) error {
	return s.front.writeOwn(ctx, ownWrite{protocolRules, rulesOwner, database, request})
}

// WriteMQTT writes what messages of MQTT have for a database, as WriteRules does.
func (s *Server) WriteMQTT(ctx context.Context, database string, request []byte) error {
	return s.front.writeOwn(ctx, ownWrite{protocolMQTT, mqttOwner, database, request})
}

// WriteSelected writes what InfluxQL's SELECT INTO has selected, as WriteRules does.
func (s *Server) WriteSelected(ctx context.Context, database string, request []byte) error {
	return s.front.writeOwn(ctx, ownWrite{protocolSelectInto, intoOwner, database, request})
}

// ownWrite is a write that no client has sent: this server makes it, by its own settings.
type ownWrite struct {
	protocol protocol
	owner    string // who its memory is charged to
	database string
	request  []byte // a WriteRequest of remote write 1.0, decompressed
}

// writeOwn writes what this server has made. What the rules of the database say holds. Errors: those of WriteRules.
func (f *front) writeOwn(ctx context.Context, w ownWrite) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	account, err := f.account(&caller{principal: access.Anyone()}, []byte(w.database))
	if err != nil {
		return err
	}
	start := time.Now()
	owner := budget.Owner{Tenant: w.owner}
	b := f.bodies.Get().(*body)
	b.owner, b.lease = owner, f.budgets.Writes.Lease(owner)
	defer f.restBody(b)
	b.expands(len(w.request))
	fl, err := f.takeWrite(b)
	if err != nil {
		f.metrics.failures.noteEarly(err)
		return err
	}
	defer f.workers.rest(fl)
	pm := &f.metrics.protocols[w.protocol]
	pm.bytes.Add(int64(len(w.request)))
	r, err := f.place(w.protocol, fl, target{[]byte(w.database), account}, f.options.Limits.WriteTimeout, func() error {
		return parse.RemoteWrite(&fl.worker.batch, w.request, parse.RemoteWrite1, f.options.Limits.Line)
	})
	account.Wrote(r.accepted, r.refused, r.failed, len(w.request))
	pm.seconds.Observe(time.Since(start).Seconds())
	if err != nil && (!refusal.Retryable(err) || errors.Is(err, budget.ErrTooLarge)) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		return err
	}
	return refusedOf(fl.batch(), r)
}

// RefusedError describes samples of a write that were left out, while the others are written. It is an ErrRefused.
type RefusedError struct {
	Refused, Of int
	First       int    // the first series of which some were refused, from 1; 0: it is not known
	Text        string // why
}

// Error implements error.
func (e *RefusedError) Error() string {
	text := fmt.Sprintf("%v: %d of %d", ErrRefused, e.Refused, e.Of)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// Unwrap returns ErrRefused.
func (e *RefusedError) Unwrap() error { return ErrRefused }

// refusedOf returns why points of a write were left out, or nil.
func refusedOf(b *parse.Batch, r result) error {
	if r.refused == 0 {
		return nil
	}
	e := &RefusedError{Refused: r.refused, Of: r.refused + r.accepted}
	if len(b.Errors) > 0 {
		e.First, e.Text = b.Errors[0].Number, strings.ToValidUTF8(string(b.Errors[0].AppendTo(nil)), "\uFFFD")
	}
	return e
}
