package ui

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/scan"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// Options is what a Handler is made of. Source, Status, Admission and Gatherer are required.
type Options struct {
	// Source answers what the page asks about names and numbers of series.
	Source scan.Source
	// Status returns the state of the cluster, as the Status of the public API.
	Status func(ctx context.Context, withoutShards bool) (*tickmeshv1.GetStatusResponse, error)
	// Admission is admission control of queries.
	Admission *admission.Controller
	// Gatherer has the metrics of this process.
	Gatherer prometheus.Gatherer

	// Databases returns the sorted names of all databases, "" for the default one, those without
	// series among them. Nil: those of Source, which have series.
	Databases func(ctx context.Context) ([]string, error)

	Version  string           // of the program, for people
	Banner   string           // what / answers to others than browsers; a line of its own
	Dialects []string         // query languages that are served here, of "promql", "opentsdb", "influxql"
	Logger   *slog.Logger     // nil: nothing is logged
	Clock    func() time.Time // nil: time.Now
}

// ErrOptions marks options that cannot work.
var ErrOptions = errors.New("options of the page")

func (o *Options) setDefaults() error {
	switch {
	case o.Source == nil || o.Status == nil:
		return fmt.Errorf("%w: Source and Status are needed", ErrOptions)
	case o.Admission == nil || o.Gatherer == nil:
		return fmt.Errorf("%w: Admission and Gatherer are needed", ErrOptions)
	}
	if o.Databases == nil {
		o.Databases = o.Source.Databases
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return nil
}
