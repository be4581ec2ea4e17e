package opentsdb

import (
	"github.com/tickmesh/tickmesh/router/query/consistency"
	"github.com/tickmesh/tickmesh/router/query/shell"
)

// reader is where the scans of one request read.
type reader struct{ *shell.Reader }

// reader returns the source that a request asks for.
func (h *handler) reader(c *call) (*reader, error) {
	consistency, err := consistency.Of(c.Header, c.parameters)
	if err != nil {
		return nil, invalid("%s", err)
	}
	return &reader{h.shell.Reader(consistency)}, nil
}
