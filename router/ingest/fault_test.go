package ingest

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
)

func failing(kind error, text string) func(context.Context) error {
	return func(context.Context) error { return fmt.Errorf("%w: %s", kind, text) }
}

// refusing refuses the series of one metric.
func refusing(metric string) func(series.Key) error { return refusingAs(metric, series.ErrSeriesLimit) }

func refusingAs(metric string, kind error) func(series.Key) error {
	return func(key series.Key) error {
		if _, m, _, err := key.Parts(nil); err != nil || string(m) == metric {
			return kind
		}
		return nil
	}
}

// gated holds writes until the gate is closed or their context ends.
func gated(gate <-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
