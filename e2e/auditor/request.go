package auditor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/tickmesh/tickmesh/e2e/model"
)

// errUnavailable marks an answer that the cluster cannot serve now.
var errUnavailable = errors.New("the cluster says that it cannot serve now")

// errNoRouter reports that no router runs.
var errNoRouter = errors.New("no router runs")

const (
	writePath  = "/write?precision=ms"
	deletePath = "/api/query"

	answerBytesMax = 1 << 30
	// noSuchName is what OpenTSDB says of a metric that it does not know.
	noSuchName = "No such name"
)

// dialect is how a client writes.
type dialect int

const (
	lineHTTP    dialect = iota // line protocol, with keys that make repeating harmless
	lineHTTPAPI                // the same to OpenTSDB's path, without keys
	putHTTP                    // put lines
	putTCP                     // put lines over TCP, with version as the fence
	dialects
)

func (a *Audit) dialectOf(client int) dialect {
	if a.config.PutAddr == nil {
		return lineHTTP
	}
	return dialect(client % int(dialects))
}

// requestOf is a request to a router.
type requestOf struct {
	method, address, path string
	body                  []byte
	key                   string // Idempotency-Key; "" is none
	level                 string // X-Tickmesh-Level; "" is none
}

// requestFor words one operation of a client. Deletes have no form but a query.
func requestFor(w *model.Writer, o *model.Operation, speaks dialect) (r requestOf, err error) {
	r.method = http.MethodPost
	switch {
	case o.Deletes():
		r.path = deletePath
		r.body, err = w.Deletion(o)
	case speaks == lineHTTP:
		r.path, r.body = writePath, w.Lines(o)
	case speaks == lineHTTPAPI:
		r.path, r.body = "/api"+writePath, w.Lines(o)
	case speaks == putHTTP:
		r.path, r.body = "/api/put", w.Puts(o)
	default:
		r.body = w.Puts(o) // no path: over TCP
	}
	return r, err
}

// do sends one request to a router and returns the answer's body. Errors: ErrRefused
// for what a client did wrong, errUnavailable for what may be tried again; any other
// error means that there is no answer. unknown reports that the name asked for does not
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
		a.client.CloseIdleConnections() // they may lead where this one has led
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
	case a.mayRefuse(r, code):
		return nil, false, fmt.Errorf("%w: %s to %s: %.300s", errUnavailable, response.Status, r.path, answer)
	default:
		return nil, false, fmt.Errorf("%w: %s to %s: %.300s", ErrRefused, response.Status, r.path, answer)
	}
}

// mayRefuse reports whether a code says that the request may be tried again. One server that is
// ended has no other reason to take no write than that it cannot now.
func (a *Audit) mayRefuse(r requestOf, code int) bool {
	if a.config.ServerEnds && r.method == http.MethodPost {
		return code == http.StatusServiceUnavailable
	}
	return code == http.StatusTooManyRequests || code/100 == 5
}

// send sends one operation of a client.
func (a *Audit) send(ctx context.Context, r requestOf) error {
	if r.path == "" {
		return a.sendTCP(ctx, a.config.PutAddr(r.address), r.body)
	}
	_, unknown, err := a.do(ctx, r)
	if err == nil && unknown && r.path != deletePath {
		return fmt.Errorf("%w: a write is answered by %q", ErrRefused, noSuchName)
	}
	// A delete of a series that does not exist has nothing to do.
	return err
}

// sendTCP sends put lines over a connection of their own. They are acknowledged when the
// reply to version, and then the end of the stream, have come.
func (a *Audit) sendTCP(ctx context.Context, address string, lines []byte) error {
	ctx, cancel := context.WithTimeout(ctx, a.config.RequestTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if _, err := conn.Write(append(lines, "version\n"...)); err != nil {
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	reply, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	if err != nil {
		return err
	}
	for line := range bytes.Lines(reply) {
		if bytes.HasPrefix(line, []byte("put: Please throttle")) {
			return fmt.Errorf("%w: %s", errUnavailable, line)
		}
		if bytes.HasPrefix(line, []byte("put: ")) {
			return fmt.Errorf("%w: %s", ErrRefused, line)
		}
	}
	if !bytes.HasSuffix(reply, []byte("\n")) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// ask reads a client's series in [fromMs, toMs].
func (a *Audit) ask(ctx context.Context, address, metric string, client int, fromMs, toMs int64) ([]model.AnswerSeries, error) {
	m := url.QueryEscape(fmt.Sprintf("none:%s{client=%d}", metric, client))
	path := fmt.Sprintf("/api/query?start=%d&end=%d&ms=true&arrays=true&m=%s", fromMs, toMs, m)
	body, unknown, err := a.do(ctx, requestOf{method: http.MethodGet, address: address, path: path})
	if err != nil || unknown {
		return nil, err // unknown: the comparison says whether that is right
	}
	var answer []model.AnswerSeries
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: the answer to %s: %w", ErrBroken, path, err)
	}
	return answer, nil
}
