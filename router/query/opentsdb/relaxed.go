package opentsdb

import (
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

// reader is where the scans of one request read.
type reader struct {
	scan.Source
	relaxation scan.Relaxation
	missing    func() []uint16
}

// reader gives the source that a request asks for.
func (h *handler) reader(c *call) (*reader, error) {
	relaxation, err := c.relaxation()
	if err != nil {
		return nil, err
	}
	x := &reader{Source: h.source, relaxation: relaxation, missing: func() []uint16 { return nil }}
	if h.relaxed != nil && relaxation != (scan.Relaxation{}) {
		x.Source, x.missing = h.relaxed(relaxation)
	}
	return x, nil
}

// relaxation reads what a request puts up with.
func (c *call) relaxation() (o scan.Relaxation, err error) {
	p := c.parameters
	if p.Has(partialParameter) {
		o.Partial = flag(p, partialParameter)
	} else if text := c.Header.Get(partialHeader); text != "" {
		o.Partial = text != "0" && !strings.EqualFold(text, "false")
	}
	name, text := staleParameter, p.Get(staleParameter)
	if !p.Has(staleParameter) {
		name, text = staleHeader, c.Header.Get(staleHeader)
	}
	if text == "" {
		return o, nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > staleMax.Milliseconds() {
		return o, invalid("'%s' is not a number of milliseconds from 0 to %d: %s", name, staleMax.Milliseconds(), text)
	}
	o.StalenessMax = time.Duration(ms) * time.Millisecond
	return o, nil
}

// tellMissing puts the shards that the answer is without into its header. All reads
// have ended; nothing of the answer is out.
func (h *handler) tellMissing(a *answer, x *reader) {
	shards := x.missing()
	if len(shards) == 0 {
		return
	}
	h.metrics.partial.Inc()
	text := make([]byte, 0, 6*len(shards))
	for i, shard := range shards {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, uint64(shard), 10)
	}
	a.w.Header().Set(missingHeader, string(text))
}
