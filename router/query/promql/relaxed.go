package promql

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

// A reader says by parameters or, where a client has none to spare, by headers what it
// puts up with. A parameter wins over its header.
const (
	partialParameter = "partial"
	partialHeader    = "X-Tickmesh-Partial"
	staleParameter   = "stale_ms"
	staleHeader      = "X-Tickmesh-Stale-Ms"
	missingHeader    = "X-Tickmesh-Missing-Shards"
)

// staleMax is the most that a reader may put up with.
const staleMax = 24 * time.Hour

// reader is where one request reads.
type reader struct {
	source  scan.Source
	missing func() []uint16
}

// readerOf gives the source that a request asks for.
func (h *handler) readerOf(r *http.Request, form url.Values) (reader, error) {
	relaxation, err := relaxationOf(r, form)
	x := reader{source: h.options.Source, missing: func() []uint16 { return nil }}
	if err == nil && h.options.Relaxed != nil && relaxation != (scan.Relaxation{}) {
		x.source, x.missing = h.options.Relaxed(relaxation)
	}
	return x, err
}

// relaxationOf reads what a request puts up with.
func relaxationOf(r *http.Request, form url.Values) (o scan.Relaxation, err error) {
	text := r.Header.Get(partialHeader)
	if form.Has(partialParameter) {
		text = form.Get(partialParameter)
		o.Partial = text == ""
	}
	o.Partial = o.Partial || text != "" && text != "0" && !strings.EqualFold(text, "false")
	name, text := staleHeader, r.Header.Get(staleHeader)
	if form.Has(staleParameter) {
		name, text = staleParameter, form.Get(staleParameter)
	}
	if text == "" {
		return o, nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > staleMax.Milliseconds() {
		return o, invalidParameter(fmt.Errorf("%q is not a number of milliseconds from 0 to %d", text, staleMax.Milliseconds()), name)
	}
	o.StalenessMax = time.Duration(ms) * time.Millisecond
	return o, nil
}

// tellMissing puts the shards that the answer is without into its header, and gives a
// warning about them. All reads have ended; nothing of the answer is out.
func (h *handler) tellMissing(x *exchange) []string {
	shards := x.reader.missing()
	if len(shards) == 0 {
		return nil
	}
	h.metrics.partial.Inc()
	text := make([]byte, 0, 6*len(shards))
	for i, shard := range shards {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, uint64(shard), 10)
	}
	x.out.w.Header().Set(missingHeader, string(text))
	return []string{"the answer is partial: nobody answers for shards " + string(text)}
}
