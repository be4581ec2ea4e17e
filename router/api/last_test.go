package api_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/api/apitest"
)

// helped is a source whose Last is visited by a helper while the goroutine that was asked works.
type helped struct {
	scan.Source
	pool *processor.Pool
	lost bool
}

func (h *helped) Last(ctx context.Context, _ *scan.Selector, _ int64, _ scan.Limits, visit func(scan.Point) error) error {
	processor.Of(ctx).Heavy()
	ended := make(chan error)
	go func() {
		for n := range int64(3000) { // several messages
			if err := visit(scan.Point{Key: series.AppendKey(nil, nil, []byte("m"), nil), Sample: series.Sample{TimeMs: n}}); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	err := <-ended
	h.lost = h.pool.Stats().InUse != 1
	return err
}

// TestLastOfHelpers: an answer that a helper sends leaves the slot of the goroutine that was asked.
func TestLastOfHelpers(t *testing.T) {
	storage, pool := apitest.NewStorage(2), processor.New(1)
	o := apitest.Options(storage)
	source := &helped{storage, pool, false}
	o.Source, o.Processors = source, pool
	conn, _ := dial(t, o)
	stream, err := tickmeshv1.NewQueryServiceClient(conn).Last(background(t), &tickmeshv1.LastRequest{Selector: &tickmeshv1.Selector{Metric: []byte("m")}})
	if err != nil {
		t.Fatal(err)
	}
	points := 0
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		points += len(m.GetPoints())
	}
	if points != 3000 || source.lost {
		t.Errorf("%d points; its slot is lost: %v", points, source.lost)
	}
}
