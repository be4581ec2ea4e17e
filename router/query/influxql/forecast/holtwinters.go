package forecast

import (
	"errors"
	"fmt"
	"math"
)

// Point is a value of a time.
type Point struct {
	Time  int64 // ns
	Value float64
}

// Bounds of a forecast. A search has a vertex of a number for each parameter, of which each part of a season is one.
const (
	PointsMax = 1_000_000 // that are computed, those in gaps and in the future included
	SeasonMax = 1000
)

// ErrBounds marks what would be too much to compute.
var ErrBounds = errors.New("more than a forecast may have")

// HoltWinters are the settings of a forecast.
type HoltWinters struct {
	IntervalNs int64 // between points; more than 0
	Horizon    int   // points of the future
	Season     int   // points of a season; less than 2: there are none
	WithFit    bool  // the points of the past are computed, too
	// GoOn is asked before each step. Its error ends the computation.
	GoOn func() error
}

// parameters of the method, before those of the parts of a season.
const (
	alpha = iota // weights of what is new: in the level,
	beta         // in the trend,
	gamma        // in the season
	phi          // by which the trend is damped
	level
	trend
	parametersOfAll
)

// Guesses from which the search begins, for each of the first four parameters, and for level and trend.
const (
	guessFrom, guessTo, guessStep = 0.3, 1.0, 0.4
	guessWeight                   = 0.5
)

// Forecast returns points that go on with those of the past, which are in the order of time; none if these are too
// few, or less than a season. Errors: ErrBounds, and that of GoOn.
func (h *HoltWinters) Forecast(past []Point) ([]Point, error) {
	if h.Season > SeasonMax {
		return nil, fmt.Errorf("%w: a season of %d points, of %d at most", ErrBounds, h.Season, SeasonMax)
	}
	seasonal := h.Season >= 2
	if len(past) < 2 || seasonal && len(past) < h.Season || h.Horizon <= 0 {
		return nil, nil
	}
	values, err := h.regular(past)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	f := &fit{values: values, computed: make([]float64, len(values)+h.Horizon), seasonal: seasonal}
	best, err := h.search(f)
	if err != nil {
		return nil, err
	}
	return h.points(past, f, f.compute(h.Horizon, best)), nil
}

// regular returns a value for each interval, NaN where there is none; nothing if all points are of one interval.
func (h *HoltWinters) regular(past []Point) ([]float64, error) {
	first, last := h.round(past[0].Time), h.round(past[len(past)-1].Time)
	if last <= first {
		return nil, nil
	}
	if n := (last - first) / h.IntervalNs; n >= PointsMax || n+int64(h.Horizon) >= PointsMax {
		return nil, fmt.Errorf("%w: %d points with those in gaps and in the future, of %d at most", ErrBounds, n+1+int64(h.Horizon), PointsMax)
	}
	values, at := []float64{past[0].Value}, first
	for _, p := range past[1:] {
		rounded := h.round(p.Time)
		if rounded <= at {
			continue
		}
		for at += h.IntervalNs; at != rounded; at += h.IntervalNs {
			values = append(values, math.NaN())
		}
		values = append(values, p.Value)
	}
	return values, nil
}

// round returns the nearest multiple of the interval, of two the earlier one.
func (h *HoltWinters) round(t int64) int64 {
	if t%h.IntervalNs > h.IntervalNs/2 {
		return (t/h.IntervalNs + 1) * h.IntervalNs
	}
	return t / h.IntervalNs * h.IntervalNs
}

// search returns the parameters with the least error.
func (h *HoltWinters) search(f *fit) ([]float64, error) {
	start := f.guess(h.Season)
	s := newSimplex(len(start), f.squares)
	least, best, tried := math.Inf(1), make([]float64, len(start)), make([]float64, len(start))
	for n := range 1 << 4 { // each of four parameters has two guesses
		for i, bit := alpha, 3; i <= phi; i, bit = i+1, bit-1 {
			start[i] = guessFrom
			if n>>bit&1 == 1 {
				start[i] += guessStep
			}
		}
		squares, err := s.search(start, tried, h.GoOn)
		if err != nil {
			return nil, err
		}
		if squares < least || n == 0 {
			least = squares
			copy(best, tried)
		}
	}
	return best, nil
}

// points returns the points of the answer.
func (h *HoltWinters) points(past []Point, f *fit, computed []float64) []Point {
	start := past[0].Time
	if !h.WithFit {
		start, computed = past[len(past)-1].Time+h.IntervalNs, computed[len(f.values):]
	}
	points := make([]Point, 0, len(computed))
	for i, v := range computed {
		if !math.IsNaN(v) {
			points = append(points, Point{start + h.IntervalNs*int64(i), v})
		}
	}
	return points
}

// fit computes the values that parameters come to.
type fit struct {
	values   []float64
	computed []float64 // memory
	seasonal bool
}

// guess returns parameters to start from, but for those of which a grid is tried.
func (f *fit) guess(season int) []float64 {
	y := f.values
	if !f.seasonal {
		p := make([]float64, parametersOfAll)
		p[level] = guessWeight * y[0]
		if !math.IsNaN(y[1]) {
			p[trend] = guessWeight * (y[1] - y[0])
		}
		return p
	}
	p := make([]float64, parametersOfAll+season)
	m := float64(season)
	of := y[:min(season, len(y))]
	for _, v := range of {
		if !math.IsNaN(v) {
			p[level] += 1 / m * v
		}
	}
	for i := range min(season, len(y)-len(of)) {
		if now, next := y[i], y[season+i]; !math.IsNaN(now) && !math.IsNaN(next) {
			p[trend] += 1 / (m * m) * (next - now)
		}
	}
	for i, v := range of {
		if !math.IsNaN(v) {
			p[parametersOfAll+i] = v / p[level]
		}
	}
	return p
}

// squares returns the sum of squared errors, as the search wants it. See compute.
func (f *fit) squares(p []float64) (sum float64) {
	for i, v := range f.compute(0, p) {
		y := f.values[i]
		switch {
		case math.IsNaN(y):
			continue
		case math.IsNaN(v):
			return math.Inf(1)
		}
		sum += (v - y) * (v - y)
	}
	return sum
}

// compute returns what parameters give for the past and for points of the future; the memory is the fit's. As in InfluxDB it
// changes the parameters: the first four into their range, those of a season into those of the end, and which part of the season a
// point has goes on by two. The search depends on all that.
func (f *fit) compute(horizon int, p []float64) []float64 {
	for i := range p[:level] {
		p[i] = clamped(p[i])
	}
	season := p[parametersOfAll:]
	v, l, b := f.values[0], p[level], p[trend]
	damped, power := p[phi], 1.0
	computed := f.computed[:len(f.values)+horizon]
	computed[0] = v
	part, partThen := 1.0, 1.0
	for t := 1; t < len(computed); t++ {
		if f.seasonal {
			m := len(season)
			part, partThen = season[(2*t-2)%m], season[(2*t-2+t%m)%m]
		}
		before := l
		l = p[alpha]*(v/part) + (1-p[alpha])*(before+p[phi]*b)
		newPart := p[gamma]*(v/(before+p[phi]*b)) + (1-p[gamma])*part
		b = p[beta]*(l-before) + (1-p[beta])*p[phi]*b
		v = (l + damped*b) * partThen
		if power != 0 { // of smaller ones the sum knows nothing
			power = math.Pow(p[phi], float64(t))
			if sum := damped + power; sum != damped {
				damped = sum
			} else {
				power = 0
			}
		}
		if f.seasonal {
			season[(2*t-2)%len(season)] = newPart
		}
		computed[t] = v
	}
	return computed
}

// clamped returns a number between 0 and 1, and what is none as it is.
func clamped(v float64) float64 {
	switch {
	case v > 1:
		return 1
	case v < 0:
		return 0
	}
	return v
}
