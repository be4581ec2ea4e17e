package load

import (
	"testing"

	"github.com/tickmesh/tickmesh/router/query/admission"
)

// A statement gives back what it was allowed, and not what was refused.
func TestHoldingOfRefused(t *testing.T) {
	c := admission.New(admission.Options{Limits: admission.Limits{BytesMax: 100}})
	ctx, e, err := c.Begin(t.Context(), admission.Query{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.End(nil)
	r := Reader{Ctx: ctx, Entry: e}
	var other, h Holding
	if r.Take(&other, 10) != nil || r.Take(&h, 50) != nil || r.Take(&h, 60) == nil || c.Bytes() != 60 {
		t.Errorf("%d bytes are charged, want 60", c.Bytes())
	}
	if r.Release(&h); c.Bytes() != 10 {
		t.Errorf("%d bytes are charged, want 10", c.Bytes())
	}
}
