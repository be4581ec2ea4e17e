package influxql

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/guard"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/consistency"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/shell"
)

// request is what a client asks for.
type request struct {
	text        string
	statements  []ql.Statement
	database    string // canonical
	readOnly    bool   // a GET
	explain     bool   // the plans of statements are wanted, not their rows
	form        answer.Options
	consistency scan.Consistency
}

// chunkRowsDefault is the size of a chunk, as in InfluxDB.
const chunkRowsDefault = 10_000

func (h *handler) readRequest(w http.ResponseWriter, r *http.Request) (*request, error) {
	form, err := h.readForm(w, r)
	if err != nil {
		return nil, err
	}
	database, err := access.Database(r, form)
	if err != nil {
		return nil, invalid("%s", err)
	}
	q := &request{text: strings.TrimSpace(form.Get("q")), database: database, readOnly: r.Method == http.MethodGet}
	if q.text == "" {
		return nil, invalid(`missing required parameter "q"`)
	}
	q.statements, err = h.parse(r.Context(), q.text, form.Get("params"))
	if err != nil {
		return nil, err
	}
	q.form.EpochNs = epochUnit(strings.TrimSpace(form.Get("epoch")))
	q.explain = form.Get("explain") == "true"
	q.form.Pretty = form.Get("pretty") == "true"
	if form.Get("chunked") == "true" {
		q.form.ChunkRows = chunkRowsDefault
		if n, err := strconv.ParseInt(form.Get("chunk_size"), 10, 32); err == nil && n > 0 {
			q.form.ChunkRows = int(n)
		}
	}
	q.form.CSVType = csvType(r.Header.Values("Accept"))
	if q.consistency, err = consistency.Of(r.Header, form); err != nil {
		err = invalid("%s", err)
	}
	return q, err
}

// readForm returns the parameters of URL and body; those of the body win. Clients post forms
// under any content type.
func (h *handler) readForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	form := r.URL.Query()
	if r.Method != http.MethodPost || r.Body == nil {
		return form, nil
	}
	r.Body = http.MaxBytesReader(w, r.Body, h.limits.BodyBytesMax)
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "multipart/form-data" {
		return form, readMultipart(r, form)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, bodyError(err)
	}
	// Semicolons stand between statements, and people type them as they are.
	posted, err := url.ParseQuery(strings.ReplaceAll(string(body), ";", "%3B"))
	if err != nil {
		return nil, invalid("the body is no form: %s", err)
	}
	for name, values := range posted {
		form[name] = values
	}
	return form, nil
}

// readMultipart adds the parts of a body to a form; curl sends -F q=@file as a file.
func readMultipart(r *http.Request, form url.Values) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return invalid("the body is no form: %s", err)
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return bodyError(err)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return bodyError(err)
		}
		form.Set(part.FormName(), string(text))
	}
}

func bodyError(err error) error {
	if shell.Classify(context.Background(), err) == shell.BodyTooLong {
		return &requestError{status: http.StatusRequestEntityTooLarge, message: shell.BodyText(err)}
	}
	return invalid("the body cannot be read: %s", err)
}

// parse reads statements with their bound parameters. It runs in a place of the admission: which
// databases a query is of, and so what it may cost, is known only when it is parsed.
func (h *handler) parse(ctx context.Context, text, params string) (statements []ql.Statement, err error) {
	err = h.shell.Admission.Prepare(ctx, func() error {
		var bound map[string]any
		if len(params) > guard.TextBytesMax { // numbers take many times their text
			return invalid("error parsing query parameters: they have %d bytes, more than %d", len(params), guard.TextBytesMax)
		}
		if params != "" {
			if bound, err = parseParams(params); err != nil {
				return err
			}
		}
		if err := measure(text, bound); err != nil {
			return invalid("error parsing query: %s", err)
		}
		buffer, _ := h.texts.Get().(*bufio.Reader) // or each parser makes one of its own, which is larger than most texts
		defer func() {
			buffer.Reset(nil)
			h.texts.Put(buffer)
		}()
		buffer.Reset(strings.NewReader(text))
		p := ql.NewParser(buffer)
		p.SetParams(bound)
		q, err := p.ParseQuery()
		if err != nil {
			return invalid("error parsing query: %s", err)
		}
		if n := int64(len(q.Statements)); n > h.limits.StatementsMax {
			return invalid("error parsing query: %d statements, at most %d can be sent at once", n, h.limits.StatementsMax)
		}
		statements = q.Statements
		return nil
	})
	return statements, err
}

// parseParams reads the values of bound parameters ($name in the text).
func parseParams(text string) (map[string]any, error) {
	var params map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&params); err != nil {
		return nil, invalid("error parsing query parameters: %s", err)
	}
	for name, v := range params {
		number, ok := v.(json.Number)
		if !ok {
			continue
		}
		var err error
		if strings.Contains(string(number), ".") {
			params[name], err = number.Float64()
		} else {
			params[name], err = number.Int64()
		}
		if err != nil {
			return nil, invalid("error parsing json value: %s", err)
		}
	}
	return params, nil
}

// epochUnit returns the nanoseconds of a unit; one that is not known counts as nanoseconds.
func epochUnit(unit string) int64 {
	switch unit {
	case "":
		return 0
	case "u", "µ":
		return int64(time.Microsecond)
	case "ms":
		return int64(time.Millisecond)
	case "s":
		return int64(time.Second)
	case "m":
		return int64(time.Minute)
	case "h":
		return int64(time.Hour)
	}
	return 1
}

// csvType returns the content type of CSV if that is the first form that a client accepts
// and the server has; empty: JSON, whatever else it accepts, as InfluxDB does. Its client for
// Python asks for MessagePack alone, and reads what Content-Type says.
func csvType(accepts []string) string {
	for _, header := range accepts {
		for part := range strings.SplitSeq(header, ",") {
			kind, _, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}
			switch kind {
			case "application/csv", "text/csv":
				return kind
			case "text/*":
				return "text/csv"
			case "application/json", "application/*", "*/*", "*":
				return ""
			}
		}
	}
	return ""
}
