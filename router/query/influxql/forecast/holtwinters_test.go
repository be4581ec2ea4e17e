package forecast

import (
	"errors"
	"math"
	"testing"
)

func goOn() error { return nil }

// TestLine expects of points on a line that they go on about as they were, and what each setting leaves out.
func TestLine(t *testing.T) {
	var past []Point
	for i := range int64(20) {
		past = append(past, Point{i * 10, 100 + float64(i)})
	}
	h := HoltWinters{IntervalNs: 10, Horizon: 3, GoOn: goOn}
	points, err := h.Forecast(past)
	if err != nil || len(points) != 3 {
		t.Fatal(points, err)
	}
	for i, p := range points {
		if want := 120 + float64(i); p.Time != 200+int64(i)*10 || math.Abs(p.Value-want) > 2 {
			t.Errorf("%d: %v, about %v expected", i, p, want)
		}
	}
	h.WithFit = true
	if points, err = h.Forecast(past); err != nil || len(points) != 23 || points[0] != past[0] {
		t.Errorf("%v %v", points, err)
	}
	if points, err = h.Forecast(past[:1]); err != nil || points != nil {
		t.Errorf("of one point: %v %v", points, err)
	}
	h.Season = 21
	if points, err = h.Forecast(past); err != nil || points != nil {
		t.Errorf("of less than a season: %v %v", points, err)
	}
}

func TestBounds(t *testing.T) {
	past := []Point{{0, 1}, {PointsMax * 10, 2}}
	h := HoltWinters{IntervalNs: 10, Horizon: 1, GoOn: goOn}
	if _, err := h.Forecast(past); !errors.Is(err, ErrBounds) {
		t.Error(err)
	}
	h.Season = SeasonMax + 1
	if _, err := h.Forecast(past); !errors.Is(err, ErrBounds) {
		t.Error(err)
	}
	ended := errors.New("ended")
	h = HoltWinters{IntervalNs: 10, Horizon: 1, GoOn: func() error { return ended }}
	if _, err := h.Forecast([]Point{{0, 1}, {10, 2}}); !errors.Is(err, ended) {
		t.Error(err)
	}
}
