package promql

import (
	"context"
	"fmt"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// manyGroups is a source that has one row of each of very many groups.
type manyGroups struct{ scan.Source }

func (manyGroups) Scan(_ context.Context, request *scan.Request, visit scan.Visitor) error {
	for i := range 1 << 20 {
		key := series.AppendKey(nil, []byte("db"), []byte("m"), []series.Tag{{Name: []byte("group"), Value: fmt.Append(nil, i)}})
		if err := visit(0, &scan.Chunk{Key: key, Series: 1, Times: []int64{request.Steps.FirstMs}, Count: []int64{1}}); err != nil {
			return err
		}
	}
	return nil
}

// Where there are too many groups, series are read instead, and nothing is charged for the groups any more.
func TestTooManyGroupsAreGivenBack(t *testing.T) {
	c := admission.New(admission.Options{Limits: admission.Limits{BytesMax: 10_000}})
	ctx, entry, err := c.Begin(t.Context(), admission.Query{})
	if err != nil {
		t.Fatal(err)
	}
	defer entry.End(nil)
	if err := entry.Take(100); err != nil {
		t.Fatal(err)
	}
	r := reading{
		source: manyGroups{}, entry: entry, selectors: make([]scan.Selector, 1), parallel: 1,
		steps: &scan.Steps{LastMs: 9000, StepMs: 1000, RangeMs: 1000, Fold: &scan.Fold{Kind: scan.FoldCount, Names: []string{"group"}}},
	}
	if _, ok, err := r.fold(ctx); ok || err != nil {
		t.Fatal(ok, err)
	}
	if got := c.Bytes(); got != 100 {
		t.Errorf("%d bytes are charged, want 100", got)
	}
}
