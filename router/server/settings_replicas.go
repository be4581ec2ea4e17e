package server

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/settings"
)

// ReplicaFlags make one of what several Prometheus send that scrape the same.
type ReplicaFlags struct {
	replicaLabel  string
	dedupInterval settings.Duration
}

// dedupIntervalMax is more than anybody waits between two scrapes.
const dedupIntervalMax = 24 * time.Hour

// Define defines the flags, below HeadingOperation.
func (s *ReplicaFlags) Define(f *pflag.FlagSet) {
	f.StringVar(&s.replicaLabel, "replica-label", "", "`label` to leave out of remote writes: that by which Prometheus of a pair differ")
	f.Var(&s.dedupInterval, "dedup-interval", "of which PromQL takes only a series' newest sample: the interval at which Prometheus of a pair scrape; 0: it takes all")
	settings.Group(f, settings.HeadingOperation, "replica-label", "dedup-interval")
}

// Validate refuses labels that series cannot be without, and intervals that no samples have.
func (s *ReplicaFlags) Validate(v *settings.Validation) {
	switch s.replicaLabel {
	case scan.NameTag, series.FieldTagName:
		v.Refuse("replica-label", s.replicaLabel, "expected a label that series can be without")
	}
	if d := time.Duration(s.dedupInterval); d != 0 && (d < time.Millisecond || d > dedupIntervalMax || d%time.Millisecond != 0) {
		v.Refuse("dedup-interval", s.dedupInterval.String(), "expected whole milliseconds, up to 24h, or 0")
	}
}
