package opentsdb

import "github.com/tickmesh/tickmesh/router/query/admission"

// holding counts the memory that one stage of a request holds, so that it can be given
// back when the stage ends. Not safe for concurrent use.
type holding struct {
	entry *admission.Entry
	bytes int64
}

// take charges memory. Errors are those of admission.Entry.Take.
func (h *holding) take(bytes int64) error {
	err := h.entry.Take(bytes)
	if err == nil {
		h.bytes += bytes
	}
	return err
}

// release frees everything.
func (h *holding) release() {
	h.entry.Give(h.bytes)
	h.bytes = 0
}
