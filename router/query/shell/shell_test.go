package shell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/consistency"
)

func TestClassify(t *testing.T) {
	ended := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		return ctx
	}
	running := context.Background()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want Failure
	}{
		"denied":               {running, &access.DeniedError{}, Denied},
		"busy":                 {ended(nil), &admission.BusyError{}, Busy},
		"limit":                {ended(admission.ErrTimeout), &scan.LimitError{What: "series", Limit: 1}, TooMuch},
		"body":                 {running, &http.MaxBytesError{Limit: 1}, BodyTooLong},
		"time is up":           {ended(admission.ErrTimeout), context.Canceled, TimedOut},
		"canceled":             {ended(admission.ErrCanceled), context.Canceled, Canceled},
		"gone":                 {ended(nil), context.Canceled, ClientGone},
		"another's context":    {running, context.Canceled, Internal},
		"unavailable":          {running, series.ErrUnavailable, Unavailable},
		"a full disk":          {running, fmt.Errorf("%w: no space left", series.ErrReadOnly), Unavailable},
		"overloaded, at last":  {ended(nil), series.ErrOverloaded, Unavailable},
		"anything else":        {running, errors.New("x"), Internal},
		"else, after the time": {ended(admission.ErrTimeout), errors.New("x"), Internal},
	} {
		if got := Classify(c.ctx, fmt.Errorf("wrapped: %w", c.err)); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestReader: shards that are missing are told and counted, of reads that accept that.
func TestReader(t *testing.T) {
	asked := scan.Consistency{}
	s := New(Options{Dialect: "test", Registerer: prometheus.NewRegistry(), WithConsistency: func(o scan.Consistency) (scan.Source, func() []uint16) {
		asked = o
		return nil, func() []uint16 { return []uint16{3, 17} }
	}})
	header := http.Header{}
	if text := s.Reader(scan.Consistency{}).TellMissing(header); text != "" || len(header) > 0 || asked != (scan.Consistency{}) {
		t.Error(text, header, asked)
	}
	if text := s.Reader(scan.Consistency{Partial: true}).TellMissing(header); text != "3,17" || header.Get(consistency.MissingHeader) != text || !asked.Partial {
		t.Error(text, header, asked)
	}
	if n := value(t, s.metrics.partial); n != 1 {
		t.Error(n)
	}
}

// value returns the value of a counter or gauge.
func value(t *testing.T, m prometheus.Metric) float64 {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

// TestRunEnds: a query that panics does not keep its place.
func TestRunEnds(t *testing.T) {
	s := New(Options{Dialect: "test", Admission: admission.New(admission.Options{RunningAllMax: 1})})
	for range 3 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_ = s.Run(context.Background(), admission.Query{}, func(context.Context, *admission.Entry) error { panic("bug") })
		}()
	}
	wrong := errors.New("wrong")
	if err := s.Run(context.Background(), admission.Query{}, func(ctx context.Context, entry *admission.Entry) error {
		if admission.Of(ctx) != entry || entry == nil {
			t.Error("the context has no entry")
		}
		return wrong
	}); !errors.Is(err, wrong) {
		t.Error(err)
	}
}

// TestBegin: requests are counted as the language has them, and none is in flight for ever.
func TestBegin(t *testing.T) {
	for _, byEndpoint := range []bool{false, true} {
		s := New(Options{Dialect: "test", ByEndpoint: byEndpoint})
		ended := s.Begin()
		if n := value(t, s.metrics.inFlight); n != 1 {
			t.Error(n)
		}
		ended("query", 204)
		labels := []string{"204"}
		if byEndpoint {
			labels = []string{"query", "204"}
		}
		if n := value(t, s.metrics.requests.WithLabelValues(labels...)); n != 1 || value(t, s.metrics.inFlight) != 0 {
			t.Error(n)
		}
	}
}
