package promql

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/tickmesh/tickmesh/router/query/consistency"
	"github.com/tickmesh/tickmesh/router/query/shell"
)

// readerOf returns where a request reads.
func (h *handler) readerOf(r *http.Request, form url.Values) (*shell.Reader, error) {
	asked, err := consistency.Of(r.Header, form)
	if wrong := new(consistency.Error); errors.As(err, &wrong) {
		return nil, invalidParameter(errors.New(wrong.Reason), wrong.Name)
	}
	return h.shell.Reader(asked), err
}

// tellMissing puts the shards that the answer is without into its header, and returns a
// warning about them. All reads have ended; nothing of the answer is out.
func (h *handler) tellMissing(x *exchange) []string {
	text := x.reader.TellMissing(x.out.w.Header())
	if text == "" {
		return nil
	}
	return []string{"the answer is partial: nobody answers for shards " + text}
}
