package server

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/settings"
)

// QueryHabits say what dialects take beyond their originals.
type QueryHabits struct{ metricsQL, promqlExperimental bool }

// Define defines the flags, below HeadingOperation.
func (s *QueryHabits) Define(f *pflag.FlagSet) {
	f.BoolVar(&s.metricsQL, "metricsql", false, "take what VictoriaMetrics' clients send and Prometheus refuses: functions and operators of MetricsQL, windows that are left out (rate(x)), and query_range without its step (5m), start (5m ago) or end (now)")
	f.BoolVar(&s.promqlExperimental, "promql-experimental", false, "take what Prometheus has behind --enable-feature=promql-…: experimental functions, expressions of durations, smoothed and anchored ranges, fill modifiers; queries and rules alike")
	settings.Group(f, settings.HeadingOperation, "metricsql", "promql-experimental")
}

// QueryLimits bound what one query may cost.
type QueryLimits struct {
	querySeriesMax, querySamplesMax, queryRunningMax settings.Count
	queryMemory, queryMemoryAll, queryCache          settings.Bytes
	queryTimeout, querySlow                          settings.Duration
}

// Define defines the flags, below HeadingQueryLimits.
func (s *QueryLimits) Define(f *pflag.FlagSet) {
	s.querySeriesMax, s.querySamplesMax = 1_000_000, 1_000_000_000
	f.Var(&s.querySeriesMax, "query-series-max", "series that one query reads")
	f.Var(&s.querySamplesMax, "query-samples-max", "samples that one query reads")
	s.queryMemory, s.queryMemoryAll, s.queryTimeout = 512<<20, 1<<30, settings.Duration(2*time.Minute)
	s.queryRunningMax, s.querySlow = 64, settings.Duration(time.Second)
	f.Var(&s.queryMemory, "query-memory", "memory of one query")
	f.Var(&s.queryMemoryAll, "query-memory-all", "memory of all queries together")
	s.queryCache = 64 << 20
	f.Var(&s.queryCache, "query-cache", "memory for windows of time that is over, so that a dashboard that is drawn again reads only what is new")
	f.Var(&s.queryTimeout, "query-timeout", "time of one query")
	f.Var(&s.queryRunningMax, "query-running-max", "queries at once; others wait")
	f.Var(&s.querySlow, "query-slow", "queries that take longer are logged, and told of by the page")
	settings.Group(f, settings.HeadingQueryLimits, "query-series-max", "query-samples-max", "query-memory", "query-memory-all", "query-cache", "query-timeout", "query-running-max", "query-slow")
}
