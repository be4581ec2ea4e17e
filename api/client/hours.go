package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Hour is an hour of a series of which the last sample is kept, with what there was beside it.
type Hour struct {
	Series *Series
	series.Hour
}

// WriteHours writes hours that lie before the raw of their series. Where a series has anything in an hour already, that stays and
// the hour is passed over. It may be repeated. Errors: as Write; ErrInvalid for hours that do not lie before raw, or do not fit.
func (c *Client) WriteHours(ctx context.Context, hours ...Hour) error {
	var times []int64
	var values []float64
	return c.writeBatches(ctx, func() (*batch, error) {
		b := newBatch()
		b.hours = true
		for len(hours) > 0 && b.points() < BatchPointsMax-series.HourSamplesMax {
			h := &hours[0]
			if h.Series == nil || h.StartMs < scan.TimeMsMin || h.TimeMs > scan.TimeMsMax || !h.Fits() {
				return nil, fmt.Errorf("%w: an hour without a series, from %d ms on, or one that does not fit", ErrInvalid, h.StartMs)
			}
			if times, values = h.AppendSamples(times[:0], values[:0]); b.points() > 0 && b.bytes+len(times)*b.cost(h.Series, times[0]) > BatchBytesMax {
				break
			}
			for i, at := range times {
				b.add(h.Series, at, values[i])
			}
			hours = hours[1:]
		}
		return b, nil
	})
}

// RawFrom returns since when all samples of a metric are kept, milliseconds since 1970 UTC, and math.MinInt64 where all are: before
// it the last sample of each hour is, by the rules of the server. Errors: ErrVersion from a server that does not tell.
func (c *Client) RawFrom(ctx context.Context, database, metric string) (timeMs int64, err error) {
	request := &tickmeshv1.ScanRequest{
		Selector: wire.FromSelector(&scan.Selector{Database: database, Metric: metric}), FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMin,
	}
	err = c.callOnce(ctx, func(ctx context.Context, e *endpoint) error {
		if err := e.needLevel(ctx, c.options.Name, levelHours); err != nil {
			return err
		}
		s, err := tickmeshv1.NewQueryServiceClient(e.conn).Scan(ctx, request)
		timeMs = math.MinInt64
		for err == nil {
			var m *tickmeshv1.ScanResponse
			if m, err = s.Recv(); err == nil && m.RawFromMs != nil {
				timeMs = m.GetRawFromMs()
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return errorOf(err)
	})
	return timeMs, err
}
