package main

import (
	"time"

	"github.com/spf13/pflag"
)

// queryLimitSettings bound what one query may cost.
type queryLimitSettings struct {
	querySeriesMax, querySamplesMax count
	queryMemory                     byteSize
	queryTimeout                    span
}

func (s *queryLimitSettings) define(f *pflag.FlagSet) {
	s.querySeriesMax, s.querySamplesMax = 1_000_000, 1_000_000_000
	f.Var(&s.querySeriesMax, "query-series-max", "series that one query reads")
	f.Var(&s.querySamplesMax, "query-samples-max", "samples that one query reads")
	s.queryMemory, s.queryTimeout = 512<<20, span(2*time.Minute)
	f.Var(&s.queryMemory, "query-memory", "memory of one query")
	f.Var(&s.queryTimeout, "query-timeout", "time of one query")
	group(f, headingQueryLimits, "query-series-max", "query-samples-max", "query-memory", "query-timeout")
}
