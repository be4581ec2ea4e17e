package influxql

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

// A reader says by parameters or by headers what it puts up with, as in the other
// dialects. A parameter wins over its header.
const (
	partialParameter = "partial"
	partialHeader    = "X-Tickmesh-Partial"
	staleParameter   = "stale_ms"
	staleHeader      = "X-Tickmesh-Stale-Ms"
	missingHeader    = "X-Tickmesh-Missing-Shards"
)

// staleMax is the most that a reader may put up with.
const staleMax = 24 * time.Hour

// relaxationOf reads what a request puts up with.
func relaxationOf(r *http.Request, form url.Values) (o scan.Relaxation, err error) {
	text := func(parameter, header string) string {
		if form.Has(parameter) {
			return form.Get(parameter)
		}
		return r.Header.Get(header)
	}
	switch partial := text(partialParameter, partialHeader); {
	case form.Has(partialParameter) && partial == "":
		o.Partial = true
	default:
		o.Partial = partial != "" && partial != "0" && !strings.EqualFold(partial, "false")
	}
	stale := text(staleParameter, staleHeader)
	if stale == "" {
		return o, nil
	}
	ms, err := strconv.ParseInt(stale, 10, 64)
	if err != nil || ms < 0 || ms > staleMax.Milliseconds() {
		return o, invalid("'%s' is not a number of milliseconds from 0 to %d: %s", staleParameter, staleMax.Milliseconds(), stale)
	}
	o.StalenessMax = time.Duration(ms) * time.Millisecond
	return o, nil
}

// missingTeller puts the shards that are known to be missing into the header, right before
// the first bytes go out.
type missingTeller struct {
	http.ResponseWriter
	missing func() []uint16
	count   func()
	told    bool
}

// Write implements io.Writer.
func (t *missingTeller) Write(p []byte) (int, error) {
	if !t.told {
		t.told = true
		if shards := t.missing(); len(shards) > 0 {
			t.count()
			names := make([]string, len(shards))
			for i, shard := range shards {
				names[i] = strconv.Itoa(int(shard))
			}
			t.Header().Set(missingHeader, strings.Join(names, ","))
		}
	}
	return t.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (t *missingTeller) Flush() {
	if f, ok := t.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
