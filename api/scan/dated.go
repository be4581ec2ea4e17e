package scan

// Dated is a Source whose lists can be held to a range of time.
type Dated interface {
	Source
	// Between returns a source whose Series, Metrics, TagNames and TagValues pass over series of
	// which an index knows that they have no sample in [fromMs, toMs], both inclusive. It knows
	// that by whole days of UTC, so series with samples near the range may be listed as well.
	// All else is as before.
	Between(fromMs, toMs int64) Source
}

// Between returns s.Between if s is Dated and the range is not all of time, else s.
func Between(s Source, fromMs, toMs int64) Source {
	if d, ok := s.(Dated); ok && (fromMs > TimeMsMin || toMs < TimeMsMax) {
		return d.Between(fromMs, toMs)
	}
	return s
}
