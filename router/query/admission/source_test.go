package admission

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/api/series"
)

const seriesMade, samplesEach = 10, 50

func filled(t *testing.T) *scantest.Memory {
	t.Helper()
	m := scantest.NewMemory()
	for i := range seriesMade {
		for at := range samplesEach {
			sample := series.Sample{TimeMs: int64(at), Value: 1}
			if err := m.Put(scantest.Key("", "cpu", "host", fmt.Sprint(i)), sample); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

func TestSourceCounts(t *testing.T) {
	for _, parallel := range []int{0, 1, 4} {
		l := New(Options{})
		s := l.Source(filled(t))
		ctx, e := begin(t, l, Query{})
		request := scan.Request{Selector: scan.Selector{Metric: "cpu"}, ToMs: 1000, Parallel: parallel}
		for range 2 {
			if err := s.Scan(ctx, &request, func(int, *scan.Chunk) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Last(ctx, &request.Selector, 0, scan.Limits{}, func(scan.Point) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if r := l.Running()[0]; r.Series != 3*seriesMade || r.Samples != 2*seriesMade*samplesEach+seriesMade {
			t.Fatalf("%+v", r)
		}
		e.End(nil)
	}
}

func TestSourceIsBounded(t *testing.T) {
	for _, limits := range []Limits{{SeriesMax: 15}, {SamplesMax: seriesMade*samplesEach + 1}} {
		l := New(Options{Limits: limits})
		s := l.Source(filled(t))
		ctx, e := begin(t, l, Query{})
		request := scan.Request{Selector: scan.Selector{Metric: "cpu"}, ToMs: 1000}
		ignore := func(int, *scan.Chunk) error { return nil }
		if err := s.Scan(ctx, &request, ignore); err != nil {
			t.Fatalf("%+v: the first: %v", limits, err)
		}
		var limit *scan.LimitError
		if err := s.Scan(ctx, &request, ignore); !errors.As(err, &limit) {
			t.Fatalf("%+v: the second: %v", limits, err)
		}
		e.End(limit)
		// Outside of a query nothing is counted.
		if err := s.Scan(t.Context(), &request, ignore); err != nil {
			t.Fatal(err)
		}
	}
}

// stepSource makes values at steps as storage does.
type stepSource struct{ *scantest.Memory }

func (s stepSource) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	if request.Steps == nil {
		return s.Memory.Scan(ctx, request, visit)
	}
	return steps.Scan(ctx, s, request, visit)
}

// TestStepsCountSamples: a query costs the samples that are read, whether the source makes values at steps of them or not.
func TestStepsCountSamples(t *testing.T) {
	const all = seriesMade * samplesEach
	for name, at := range map[string]*scan.Steps{
		"samples": nil,
		"steps":   {FirstMs: samplesEach, LastMs: samplesEach, StepMs: 1, RangeMs: 2 * samplesEach, Function: scan.StepSum},
		"nothing": {FirstMs: 2 * samplesEach, LastMs: 2 * samplesEach, StepMs: 1, RangeMs: 1, Function: scan.StepSum},
		"groups":  {FirstMs: samplesEach, LastMs: samplesEach, StepMs: 1, RangeMs: 2 * samplesEach, Function: scan.StepSum, Fold: &scan.Fold{Kind: scan.FoldCount}},
	} {
		for what, source := range map[string]scan.Source{"stored": stepSource{filled(t)}, "reference": filled(t)} {
			for samplesMax, allowed := range map[int64]bool{0: true, all: true, all - 1: false} {
				l := New(Options{Limits: Limits{SamplesMax: samplesMax}})
				ctx, e := begin(t, l, Query{})
				told := int64(0)
				request := scan.Request{Selector: scan.Selector{Metric: "cpu"}, ToMs: 1000, Steps: at, SamplesRead: func(n int64) error {
					told += n
					return nil
				}}
				err := l.Source(source).Scan(ctx, &request, func(int, *scan.Chunk) error { return nil })
				var limit *scan.LimitError
				if r := l.Running()[0]; allowed && (err != nil || r.Samples != all) || !allowed && (!errors.As(err, &limit) || limit.What != "samples") {
					t.Errorf("%s, %s, at most %d: %d samples, %v", name, what, samplesMax, r.Samples, err)
				} else if r.Series != seriesMade && allowed && name != "nothing" {
					t.Errorf("%s, %s: %d series", name, what, r.Series)
				}
				if at != nil && allowed && told != all {
					t.Errorf("%s, %s: whoever asked is told of %d samples", name, what, told)
				}
				e.End(err)
			}
		}
	}
}

// TestScansHoldMemoryOfQueries: the samples that a function sees where they are read are memory of the query, and of
// all that run.
func TestScansHoldMemoryOfQueries(t *testing.T) {
	m := scantest.NewMemory()
	const samples = 20_000
	for at := range int64(samples) {
		if err := m.Put(scantest.Key("", "long"), series.Sample{TimeMs: at, Value: 1}); err != nil {
			t.Fatal(err)
		}
	}
	request := scan.Request{Selector: scan.Selector{Metric: "long"}, ToMs: samples}
	request.Steps = &scan.Steps{FirstMs: samples, LastMs: samples, StepMs: 1, RangeMs: 2 * samples, Function: scan.StepMax}
	var (
		busy  *BusyError
		limit *scan.LimitError
	)
	for name, c := range map[string]struct {
		bytesAllMax, others int64
		refused             func(error) bool
	}{
		"of all":              {16 * samples * 2, 16 * samples * 5 / 4, func(err error) bool { return errors.As(err, &busy) }},
		"more than there is":  {16 * samples / 2, 0, func(err error) bool { return errors.As(err, &limit) }},
		"enough, beside some": {16 * samples * 2, 16 * samples / 4, func(err error) bool { return err == nil }},
	} {
		l := New(Options{BytesAllMax: c.bytesAllMax})
		ctx, e := begin(t, l, Query{})
		_, other := begin(t, l, Query{User: "other"})
		if err := other.Take(c.others); err != nil {
			t.Fatal(err)
		}
		err := l.Source(stepSource{m}).Scan(ctx, &request, func(int, *scan.Chunk) error { return nil })
		if r := l.Running()[0]; !c.refused(err) || r.Bytes < 16*samples/4 {
			t.Errorf("%s: %v, and %d bytes at most", name, err, r.Bytes)
		}
		e.End(err)
		other.End(nil)
		if held := l.Bytes(); held != 0 {
			t.Errorf("%s: %d bytes are held at the end", name, held)
		}
	}
}
