package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// ErrRefused is returned when the server refuses what is valid.
var ErrRefused = errors.New("the server refused a valid request")

// dialect is how a writer speaks.
type dialect int

const (
	lineHTTP dialect = iota // line protocol to /api/write
	putHTTP                 // put lines to /api/put
	putTCP                  // put lines over TCP, with version as the fence
	dialectCount
)

// writer drives one modelWriter through one life of the server.
type writer struct {
	config     *Config
	chapter    *chapter
	model      *modelWriter
	random     *rand.Rand
	server     Server
	client     *http.Client
	keepFromMs int64
	counts     counts
}

// counts are what a writer did.
type counts struct {
	acknowledged int64 // samples
	unanswered   int64 // requests
	deletes      int64 // acknowledged
	overloads    int64 // answers 503
}

func (w *writer) dialect() dialect { return dialect(w.model.number % int(dialectCount)) }

// run writes until the context ends or the server is gone; neither is an error.
func (w *writer) run(ctx context.Context) error {
	ticker := time.NewTicker(w.config.WriteEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		var err error
		if w.dialect() == putTCP {
			err = w.turnTCP(ctx)
		} else {
			err = w.turnHTTP(ctx)
		}
		if errors.Is(err, ErrRefused) {
			return err
		}
		if err != nil {
			w.counts.unanswered++
			return nil // what was on its way stays open in the model
		}
	}
}

func (w *writer) draw() operation {
	return drawOperation(w.config, w.chapter, w.model, w.random, w.keepFromMs)
}

// turnHTTP sends one request and settles it when it is answered.
func (w *writer) turnHTTP(ctx context.Context) error {
	op := w.draw()
	if op.empty() {
		return nil
	}
	if op.deletion != nil {
		return w.deleteHTTP(ctx, &op)
	}
	path, body := "/api/write?precision=ms", w.lines(op.writes)
	if w.dialect() == putHTTP {
		path, body = "/api/put", w.puts(op.writes)
	}
	return w.post(ctx, path, "text/plain", body, &op)
}

func (w *writer) deleteHTTP(ctx context.Context, op *operation) error {
	body, err := json.Marshal(map[string]any{
		"start": op.deletion.timeMs(op.from), "end": op.deletion.timeMs(op.to - 1), "msResolution": true, "delete": true,
		"queries": []any{map[string]any{
			"aggregator": "none", "metric": w.chapter.metric,
			"tags": map[string]string{"writer": strconv.Itoa(w.model.number), "series": op.deletion.name},
		}},
	})
	if err != nil {
		return err
	}
	return w.post(ctx, "/api/query", "application/json", body, op)
}

// post sends one operation. An answer 2xx settles it, 503 leaves it open, 400 to a
// delete says that the series does not exist, everything else is a refusal.
func (w *writer) post(ctx context.Context, path, contentType string, body []byte, op *operation) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.server.HTTPAddr()+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", contentType)
	response, err := w.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return err // the status came, but the answer did not come whole
	}
	switch {
	case response.StatusCode/100 == 2:
		w.settle(op)
	case response.StatusCode == http.StatusServiceUnavailable:
		w.counts.overloads++
	case op.deletion != nil && response.StatusCode == http.StatusBadRequest && bytes.Contains(text, []byte(noSuchName)):
		// The series was sent but never answered for, and does not exist.
	default:
		return fmt.Errorf("%w: %s to %s: %.500s", ErrRefused, response.Status, path, text)
	}
	return nil
}

func (w *writer) settle(op *operation) {
	op.acknowledge()
	w.counts.acknowledged += int64(len(op.writes))
	if op.deletion != nil {
		w.counts.deletes++
	}
}

// turnTCP sends a few operations over a new connection and settles them when the
// reply to version, and then the end of the stream, have come. Deletes have no
// telnet form and go over HTTP between connections.
func (w *writer) turnTCP(ctx context.Context) error {
	var ops []operation
	var text []byte
	for range 3 {
		op := w.draw()
		if op.deletion != nil {
			if len(ops) == 0 {
				return w.deleteHTTP(ctx, &op)
			}
			// The order of the writes before it is open, so it has to wait for
			// them: send them first.
			if err := w.sendTCP(ctx, text, ops); err != nil {
				return err
			}
			return w.deleteHTTP(ctx, &op)
		}
		ops = append(ops, op)
		text = append(text, w.puts(op.writes)...)
	}
	return w.sendTCP(ctx, text, ops)
}

func (w *writer) sendTCP(ctx context.Context, text []byte, ops []operation) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", w.server.PutAddr())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if _, err := conn.Write(append(text, "version\n"...)); err != nil {
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	reply, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	if err != nil {
		return err
	}
	if len(reply) == 0 {
		return io.ErrUnexpectedEOF
	}
	for line := range bytes.Lines(reply) {
		if bytes.HasPrefix(line, []byte("put: Please throttle")) {
			w.counts.overloads++
			return nil
		}
		if bytes.HasPrefix(line, []byte("put: ")) {
			return fmt.Errorf("%w: %s", ErrRefused, line)
		}
	}
	if !bytes.HasSuffix(reply, []byte("\n")) {
		return io.ErrUnexpectedEOF
	}
	for i := range ops {
		w.settle(&ops[i])
	}
	return nil
}

// lines writes line protocol, one sample on a line, in the order of the writes.
func (w *writer) lines(writes []write) []byte {
	var text []byte
	for _, write := range writes {
		text = fmt.Appendf(text, "%s,writer=%d,series=%s value=", w.chapter.metric, w.model.number, write.series.name)
		text = appendValue(text, w.chapter.value(write.series, write.index, write.v))
		text = fmt.Appendf(text, " %d\n", write.series.timeMs(write.index))
	}
	return text
}

// puts writes the same as put lines.
func (w *writer) puts(writes []write) []byte {
	var text []byte
	for _, write := range writes {
		text = fmt.Appendf(text, "put %s %d ", w.chapter.metric, write.series.timeMs(write.index))
		text = appendValue(text, w.chapter.value(write.series, write.index, write.v))
		text = fmt.Appendf(text, " writer=%d series=%s\n", w.model.number, write.series.name)
	}
	return text
}
