// Package consistency reads the read consistency that an HTTP request asks for, in the same words in
// every dialect: parameters or, where a client has none to spare, headers.
package consistency

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

// The headers. A parameter, partial or stale_ms, wins over its header; MissingHeader is the
// answer's, and names the shards that it is without.
const (
	PartialHeader = "X-Tickmesh-Partial"
	StaleHeader   = "X-Tickmesh-Stale-Ms"
	MissingHeader = "X-Tickmesh-Missing-Shards"

	partialParameter = "partial"
	staleParameter   = "stale_ms"
)

// staleMax is the most staleness that a reader may accept.
const staleMax = 24 * time.Hour

// Error describes which parameter or header cannot be understood, and why.
type Error struct{ Name, Reason string }

func (e *Error) Error() string { return fmt.Sprintf("'%s' %s", e.Name, e.Reason) }

// Of returns the consistency that a request accepts. A parameter partial without a value counts as yes.
// Error: an *Error.
func Of(header http.Header, form url.Values) (o scan.Consistency, err error) {
	partial := header.Get(PartialHeader)
	if form.Has(partialParameter) {
		partial = form.Get(partialParameter)
		o.Partial = partial == ""
	}
	o.Partial = o.Partial || partial != "" && partial != "0" && !strings.EqualFold(partial, "false")
	name, text := StaleHeader, header.Get(StaleHeader)
	if form.Has(staleParameter) {
		name, text = staleParameter, form.Get(staleParameter)
	}
	if text == "" {
		return o, nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > staleMax.Milliseconds() {
		return o, &Error{Name: name, Reason: fmt.Sprintf("is not a number of milliseconds from 0 to %d: %s", staleMax.Milliseconds(), text)}
	}
	o.StalenessMax = time.Duration(ms) * time.Millisecond
	return o, nil
}

// Missing returns the value of MissingHeader.
func Missing(shards []uint16) string {
	text := make([]byte, 0, 6*len(shards))
	for i, shard := range shards {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, uint64(shard), 10)
	}
	return string(text)
}
