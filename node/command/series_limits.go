package command

import (
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/settings"
)

// SeriesLimitFlags bound the series of a node.
type SeriesLimitFlags struct{ seriesMax, seriesPerSecondMax settings.Count }

// Define defines the flags, below HeadingWriteLimits.
func (s *SeriesLimitFlags) Define(f *pflag.FlagSet) {
	f.Var(&s.seriesMax, "series-max", "series in all; 0: no limit")
	f.Var(&s.seriesPerSecondMax, "series-per-second-max", "new series a second; 0: no limit")
	settings.Group(f, settings.HeadingWriteLimits, "series-max", "series-per-second-max")
}
