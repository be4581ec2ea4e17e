package opentsdb

import (
	"testing"

	"github.com/tickmesh/tickmesh/router/query/admission"
)

// A stage gives back what it was allowed, and not what was refused.
func TestHoldingOfRefused(t *testing.T) {
	c := admission.New(admission.Options{Limits: admission.Limits{BytesMax: 100}})
	_, e, err := c.Begin(t.Context(), admission.Query{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.End(nil)
	if err := e.Take(10); err != nil {
		t.Fatal(err)
	}
	h := holding{entry: e}
	if h.take(50) != nil || h.take(60) == nil || c.Bytes() != 60 {
		t.Errorf("%d bytes are charged, want 60", c.Bytes())
	}
	if h.release(); c.Bytes() != 10 {
		t.Errorf("%d bytes are charged, want 10", c.Bytes())
	}
}
