package opentsdb

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/guard"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// call is one request as its endpoint gets it. Its context is that of the query.
type call struct {
	*http.Request
	parameters url.Values
	database   string
	body       []byte           // unpacked; empty when the request came without one
	entry      *admission.Entry // nil for endpoints that read no data
}

// newCall reads a request, with its body; reads: of an endpoint that reads a database.
func (h *handler) newCall(r *http.Request, parameters url.Values, reads bool) (*call, error) {
	database, err := access.Database(r, nil)
	if err != nil && reads {
		return nil, invalid("%s", err)
	}
	c := &call{Request: r, parameters: parameters, database: database}
	if r.Method == http.MethodGet || r.Body == nil {
		return c, nil
	}
	c.body, err = h.body(r)
	return c, err
}

// content returns the body of a request that has to have one.
func (c *call) content() ([]byte, error) {
	if len(c.body) == 0 {
		return nil, &apiError{status: http.StatusBadRequest, message: "Missing request content"}
	}
	return c.body, measureJSON(c.body)
}

// bodyValuesMax bounds the values of a body: {} becomes a query of several hundred bytes, and
// nothing can stop that.
const bodyValuesMax = 64 << 10

// measureJSON refuses a body with too many values, before it is parsed. Text that is no JSON may
// be let pass. Error: guard.ErrTooLarge.
func measureJSON(body []byte) error {
	values, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			values++
		}
	}
	if values > bodyValuesMax {
		return invalid("%v: its body has more than %d values: ask in parts", guard.ErrTooLarge, bodyValuesMax)
	}
	return nil
}

// text returns the request for people who look for slow queries.
func (c *call) text() string {
	text := c.URL.Path
	if query, err := url.QueryUnescape(c.URL.RawQuery); err == nil && query != "" {
		text += "?" + query
	}
	if len(c.body) > 0 {
		text += " " + string(c.body)
	}
	return text
}

// body reads the body of a request, whatever its content type says, since some
// clients call JSON a form.
func (h *handler) body(r *http.Request) ([]byte, error) {
	reader := io.Reader(r.Body)
	if strings.EqualFold(r.Header.Get("Content-Encoding"), "gzip") {
		unpacked, err := gzip.NewReader(reader)
		if err != nil {
			return nil, &apiError{status: http.StatusBadRequest, message: "Unable to decompress the body", details: err.Error()}
		}
		reader = unpacked
	}
	limit := h.limits.BodyBytesMax
	if limit > 0 {
		reader = io.LimitReader(reader, limit+1)
	}
	body, err := io.ReadAll(reader)
	switch {
	case err != nil && r.Context().Err() != nil:
		return nil, r.Context().Err()
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &apiError{status: http.StatusBadRequest, message: "Unable to read the body", details: err.Error()}
	case err != nil:
		return nil, err
	case limit > 0 && int64(len(body)) > limit:
		return nil, &http.MaxBytesError{Limit: limit}
	}
	return body, nil
}
