package segment

import "github.com/tickmesh/tickmesh/api/series"

// markedHour is the open hour, where its samples are those of a series.Hour. They may come in several parts.
type markedHour struct {
	known  bool
	times  []int64
	values []float64
}

// recordOfHour returns the record of an hour. When its first sample was is not known, only that there were some before the last one.
func recordOfHour(h *series.Hour) rollupRecord {
	r := rollupRecord{
		startMs: h.StartMs, count: h.Count, scanSum: h.Sum,
		min: series.DecimalOf(h.Min, 0), max: series.DecimalOf(h.Max, 0), sum: series.FloatNumber(h.Sum),
	}
	r.first, r.firstMs = series.DecimalOf(h.First, 0), h.StartMs
	r.last, r.lastMs = series.DecimalOf(h.Last, 0), h.TimeMs
	return r
}
