package auditor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// errUnavailable marks an answer that the cluster cannot serve now.
var errUnavailable = errors.New("the cluster says that it cannot serve now")

// errNoRouter says that no router runs.
var errNoRouter = errors.New("no router runs")

const (
	writePath  = "/write?precision=ms"
	deletePath = "/api/query"

	answerBytesMax = 1 << 30
	// noSuchName is what OpenTSDB says of a metric that it does not know.
	noSuchName = "No such name"
)

// answerSeries is one series of an answer of /api/query with arrays.
type answerSeries struct {
	Metric string            `json:"metric"`
	Tags   map[string]string `json:"tags"`
	DPS    [][2]float64      `json:"dps"`
}

// requestOf is a request to a router.
type requestOf struct {
	method, address, path string
	body                  []byte
	key                   string // Idempotency-Key; "" is none
	level                 string // X-Tickmesh-Level; "" is none
}

// do sends one request to a router and returns the answer's body. Errors: ErrRefused
// for what a client did wrong, errUnavailable for what may be tried again; any other
// error says that there is no answer. unknown says that the name asked for does not
// exist.
func (a *Audit) do(ctx context.Context, r requestOf) (answer []byte, unknown bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.config.RequestTimeout)
	defer cancel()
	// Without GetBody a request is never sent twice behind our back.
	var reader io.Reader
	if r.body != nil {
		reader = struct{ io.Reader }{bytes.NewReader(r.body)}
	}
	request, err := http.NewRequestWithContext(ctx, r.method, "http://"+r.address+r.path, reader)
	if err != nil {
		return nil, false, err
	}
	request.ContentLength = int64(len(r.body))
	if r.path == deletePath {
		request.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		request.Header.Set("Idempotency-Key", r.key)
	}
	if r.level != "" {
		request.Header.Set("X-Tickmesh-Level", r.level)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, false, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	switch code := response.StatusCode; {
	case err != nil:
		return nil, false, err // the status came, but the answer did not come whole
	case code/100 == 2:
		return answer, false, nil
	case code == http.StatusBadRequest && bytes.Contains(answer, []byte(noSuchName)):
		return nil, true, nil
	case code == http.StatusTooManyRequests || code/100 == 5:
		return nil, false, fmt.Errorf("%w: %s to %s: %.300s", errUnavailable, response.Status, r.path, answer)
	default:
		return nil, false, fmt.Errorf("%w: %s to %s: %.300s", ErrRefused, response.Status, r.path, answer)
	}
}

// send sends one operation of a client, and returns its body.
func (a *Audit) send(ctx context.Context, address string, w *modelWriter, o *operation, key string) (body []byte, err error) {
	r := requestOf{method: http.MethodPost, address: address, path: writePath, body: w.lines(a.config.Metric, o.writes), key: key}
	if o.deletion != nil {
		if r.body, err = w.deleteBody(a.config.Metric, o); err != nil {
			return nil, err
		}
		r.path = deletePath
	}
	_, unknown, err := a.do(ctx, r)
	if err == nil && unknown && o.deletion == nil {
		return nil, fmt.Errorf("%w: a write is answered by %q", ErrRefused, noSuchName)
	}
	// A delete of a series that does not exist has nothing to do.
	return r.body, err
}

// ask reads a client's series in [fromMs, toMs].
func (a *Audit) ask(ctx context.Context, address string, client int, fromMs, toMs int64) ([]answerSeries, error) {
	m := url.QueryEscape(fmt.Sprintf("none:%s{client=%d}", a.config.Metric, client))
	path := fmt.Sprintf("/api/query?start=%d&end=%d&ms=true&arrays=true&m=%s", fromMs, toMs, m)
	body, unknown, err := a.do(ctx, requestOf{method: http.MethodGet, address: address, path: path})
	if err != nil || unknown {
		return nil, err // unknown: the comparison says whether that is right
	}
	var answer []answerSeries
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: the answer to %s: %w", ErrBroken, path, err)
	}
	return answer, nil
}
