package influxql

import (
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/router/query/influxql/forecast"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// isForecast reports whether a function continues its points into the future.
func isForecast(name string) bool { return name == "holt_winters" || name == "holt_winters_with_fit" }

// forecast computes a function that continues its points into the future.
func (s *selection) forecast(c *call, g *load.Group, held *load.Holding) ([]point, error) {
	next, err := s.streamOf(c, g, held)
	if err != nil {
		return nil, err
	}
	var past []forecast.Point
	for {
		p, ok := next()
		if !ok {
			break
		}
		past = append(past, forecast.Point{Time: p.time, Value: p.number})
	}
	h := forecast.HoltWinters{
		IntervalNs: s.interval.DurationNs, Horizon: c.horizon, Season: c.n, WithFit: c.name == "holt_winters_with_fit",
		GoOn: func() error {
			processor.Of(s.Ctx).Pace()
			return s.Ctx.Err()
		},
	}
	computed, err := h.Forecast(past)
	if err != nil {
		return nil, err
	}
	points := make([]point, len(computed))
	for i, p := range computed {
		points[i] = point{time: p.Time, number: p.Value}
	}
	return points, nil
}
