package cli

import (
	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/series"
)

// hourPieces are hours whose samples a backup has in several places. Units that met a limit of the cluster may end within an hour, and
// where a unit goes on in another object, that is not always the next one that is read. An hour that is there is passed over, so that
// all its pieces have to be written as one.
type hourPieces struct {
	unit   *archive.Unit // of the part that is read
	border bool          // the next hour may have begun in a part that was not read just before
	read   map[*archive.Unit]int
	hours  map[metricHour]*dividedHour
}

// metricHour is an hour of a metric.
type metricHour struct {
	metricName

	startMs int64
}

// dividedHour has the pieces of an hour so far.
type dividedHour struct {
	bySeries map[string]series.Hour // by key
	readMs   int64                  // of the hour, of units that end within it and were read whole
}

// begin begins a part of a unit. It follows the one before where that was the part before it of the unit. Hours that are complete by then are
// passed to add.
func (p *hourPieces) begin(u *archive.Unit, follows bool, add func(key string, h series.Hour) error) error {
	if p.read == nil {
		p.read, p.hours = map[*archive.Unit]int{}, map[metricHour]*dividedHour{}
	}
	var err error
	if before := p.unit; before != nil && p.read[before] == len(before.Parts) {
		delete(p.read, before)
		err = p.complete(before, add)
	}
	if p.unit = u; !follows {
		p.border = len(u.Parts) > 1
	}
	p.read[u]++
	return err
}

// complete passes on hours that end in a unit of which all has been read, and have begun in others.
func (p *hourPieces) complete(u *archive.Unit, add func(key string, h series.Hour) error) error {
	first, last := startOf(u.FromMs, series.HourMs), startOf(u.ToMs, series.HourMs)
	for startMs := first; ; startMs = last {
		if p.dividedByUnit(u, startMs) {
			at := metricHour{rangeOf(u).metricName, startMs}
			h := p.at(at)
			h.readMs += min(u.ToMs, startMs+series.HourMs-1) - max(u.FromMs, startMs) + 1
			if h.readMs == series.HourMs {
				delete(p.hours, at)
				if err := h.all(add); err != nil {
					return err
				}
			}
		}
		if startMs == last {
			return nil
		}
	}
}

func (p *hourPieces) dividedByUnit(u *archive.Unit, startMs int64) bool {
	return startMs < u.FromMs || startMs+series.HourMs-1 > u.ToMs
}

// divides reports whether the part that is read may have a piece only of the hour that comes next.
func (p *hourPieces) divides(startMs int64) bool {
	border := p.border
	p.border = false
	return border || p.dividedByUnit(p.unit, startMs)
}

func (p *hourPieces) at(at metricHour) *dividedHour {
	h := p.hours[at]
	if h == nil {
		h = &dividedHour{bySeries: map[string]series.Hour{}}
		p.hours[at] = h
	}
	return h
}

// hold keeps a piece of an hour.
func (p *hourPieces) hold(key string, piece series.Hour) {
	h := p.at(metricHour{rangeOf(p.unit).metricName, piece.StartMs})
	if before, known := h.bySeries[key]; known {
		piece = joined(before, piece)
	}
	h.bySeries[key] = piece
}

// all passes on all that are held.
func (p *hourPieces) all(add func(key string, h series.Hour) error) error {
	for at, h := range p.hours {
		delete(p.hours, at)
		if err := h.all(add); err != nil {
			return err
		}
	}
	return nil
}

func (h *dividedHour) all(add func(key string, h series.Hour) error) error {
	for key, hour := range h.bySeries {
		if err := add(key, hour); err != nil {
			return err
		}
	}
	return nil
}

// joined returns an hour that was divided in two.
func joined(a, b series.Hour) series.Hour {
	if b.TimeMs < a.TimeMs {
		a, b = b, a
	}
	switch {
	case a.Count == 0:
		return b
	case b.Count == 0:
		a.TimeMs, a.Value = b.TimeMs, b.Value
		return a
	}
	b.Count, b.Sum = a.Count+b.Count, a.Sum+b.Sum
	if b.First = a.First; !(b.Min < a.Min) { // of two zeros the first one counts, as in windows
		b.Min = a.Min
	}
	if !(b.Max > a.Max) {
		b.Max = a.Max
	}
	return b
}
