package storage

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// A batch of hours, as a restore sends it, brings hours of which the last sample is left and rollups tell the rest (series.Hour).
// They are stored as samples of their hour, which no read shows but the last: windows, and files when they are written with rollups, make a
// rollup of them. The rules:
//
//   - An hour is taken only before the cut of its series. No other samples come there any more.
//   - It is taken only where the series has nothing in that hour: samples, and hours that were there before, win. What there is
//     of an hour depends on the entries before alone, whatever files are thinned already, so replicas agree.
//   - It is one page, so that neither a flush nor a crash divides it: a replay finds all of it, or nothing.

// hourKey is an hour of a series.
type hourKey struct {
	id     uint32
	hourMs int64
}

// knownHours are hours in which series have something.
type knownHours map[hourKey]struct{}

// unmarked returns the mantissa of a sample, which may not look as if it began an hour.
func unmarked(r *series.BatchReader) int64 {
	if r.Scale == series.ScaleFloat {
		if _, marked := series.MarkedHour(r.TimeMs, series.Float64(r.Mantissa, r.Scale)); marked {
			return series.FloatNumber(math.NaN()).Mantissa
		}
	}
	return r.Mantissa
}

// hourGroup is an hour as a batch has it.
type hourGroup struct {
	ref     uint32
	hourMs  int64
	columns codec.Columns
}

// next reads the next hour of a batch into g. The reader stands on its first point, and then on that of the next one, if more.
func (g *hourGroup) next(r *series.BatchReader) (more bool) {
	g.ref, g.hourMs = r.Ref, segment.HourOf(r.TimeMs).FromMs
	g.columns.Reset()
	for {
		g.columns.Times = append(g.columns.Times, r.TimeMs)
		g.columns.Mantissas = append(g.columns.Mantissas, r.Mantissa)
		g.columns.Scales = append(g.columns.Scales, r.Scale)
		if more = r.NextPoint(); !more || r.Ref != g.ref || segment.HourOf(r.TimeMs).FromMs != g.hourMs || r.TimeMs <= g.columns.Times[len(g.columns.Times)-1] {
			return more
		}
	}
}

// isHour reports whether the points are those of series.Hour.
func (g *hourGroup) isHour() bool {
	if g.columns.Len() > series.HourSamplesMax {
		return false
	}
	values := make([]float64, g.columns.Len())
	for i, m := range g.columns.Mantissas {
		values[i] = series.Float64(m, g.columns.Scales[i])
	}
	if _, marked := series.MarkedHour(g.columns.Times[0], values[0]); !marked {
		return len(values) == 1
	}
	_, ok := series.HourOfSamples(g.columns.Times, values)
	return ok
}

// eachHour visits the hours of a batch whose definitions have been read.
func eachHour(r *series.BatchReader, visit func(*hourGroup) error) error {
	var g hourGroup
	for more := r.NextPoint(); more; {
		more = g.next(r)
		if err := visit(&g); err != nil {
			return err
		}
	}
	return r.Err()
}

// hasHours reports whether an entry has batches of hours.
func hasHours(e *entry.Entry) bool {
	if e.Kind != entry.Samples {
		return false
	}
	batches := entry.ReadBatches(e.Body)
	for batches.Next() {
		if series.HoursOf(batches.Batch) {
			return true
		}
	}
	return false
}

// lookUpHoursLocked sets mu.hours for an entry that is to be applied next. It lets go of the lock meanwhile, if the entry has hours. Same
// reports whether the replica has not been replaced then. Errors: ErrStalled.
func (s *shard) lookUpHoursLocked(e *entry.Entry) (same bool, err error) {
	if s.mu.hours = nil; !hasHours(e) {
		return true, nil
	}
	replica := s.mu.number
	s.mu.Unlock()
	hours, err := s.knownHoursOf(e)
	s.mu.Lock()
	s.mu.hours = hours
	return s.mu.number == replica, err
}

// knownHoursOf returns, of the hours of an entry, those in which their series have something. It is called without the
// lock, which reads need; entries of a shard are applied one after the other. Errors: ErrStalled.
func (s *shard) knownHoursOf(e *entry.Entry) (knownHours, error) {
	known := knownHours{}
	s.engine.hoursCame.Store(true)
	batches := entry.ReadBatches(e.Body)
	for batches.Next() {
		if !series.HoursOf(batches.Batch) {
			continue
		}
		if err := s.addKnownHours(known, batches.Batch); err != nil && !errors.Is(err, series.ErrBatch) {
			return nil, err
		}
	}
	return known, nil
}

func (s *shard) addKnownHours(known knownHours, batch []byte) error {
	var r series.BatchReader
	var ids []uint32 // of definitions; those without a series have noSeries
	const noSeries = math.MaxUint32
	for r.Reset(batch); ; {
		key, ok := r.NextDefinition()
		if !ok {
			break
		}
		ref, found, err := s.engine.index.Lookup(key)
		if err != nil {
			return stalled(err)
		}
		if !found {
			ref.ID = noSeries
		}
		ids = append(ids, uint32(ref.ID))
	}
	seriesCount := s.engine.index.ShardSeries(s.number)
	var wanted []hourKey
	err := eachHour(&r, func(g *hourGroup) error {
		id := g.ref
		if n := id - uint32(series.SlotBase); id >= uint32(series.SlotBase) {
			if id = noSeries; n < uint32(len(ids)) {
				id = ids[n]
			}
		}
		if id < seriesCount && !s.forgotten.Has(id) {
			wanted = append(wanted, hourKey{id, g.hourMs})
		}
		return nil
	})
	s.findHours(known, wanted)
	return err
}

// hoursGapMs is the longest gap between hours of a series that are read at once: a read has its price, which grows with the
// pages of the series, whatever it finds.
const hoursGapMs = segment.DayMs

// findHours adds those of some hours in which their series have something.
func (s *shard) findHours(known knownHours, wanted []hourKey) {
	slices.SortFunc(wanted, func(a, b hourKey) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.hourMs, b.hourMs)) })
	reader := s.engine.NewReader(0)
	defer reader.Close()
	for len(wanted) > 0 {
		n := 1
		for n < len(wanted) && wanted[n].id == wanted[0].id && wanted[n].hourMs-wanted[n-1].hourMs <= hoursGapMs {
			n++
		}
		if err := s.findHoursOf(reader, known, wanted[:n]); err != nil {
			for i := range wanted[:n] {
				s.findHour(reader, known, wanted[i:i+1])
			}
		}
		wanted = wanted[n:]
	}
}

// findHour is findHours of one hour.
func (s *shard) findHour(reader *read.Reader, known knownHours, one []hourKey) {
	err := s.findHoursOf(reader, known, one)
	if err == nil {
		return
	}
	// Other copies take it or not; this one has something there that it cannot read.
	s.engine.reportCorruption(fmt.Errorf("shard %d: what series %d has in the hour from %d ms on: %w", s.number, one[0].id, one[0].hourMs, err))
	known[one[0]] = struct{}{}
}

// findHoursOf adds those of some hours of a series, in order, in which it has something.
func (s *shard) findHoursOf(reader *read.Reader, known knownHours, hours []hourKey) error {
	id := hours[0].id
	cutMs, err := s.ThinCutOf(id)
	if err != nil {
		return err
	}
	for len(hours) > 0 && hours[len(hours)-1].hourMs+segment.HourMs > cutMs {
		hours = hours[:len(hours)-1] // they are not taken
	}
	if len(hours) == 0 {
		return nil
	}
	toMs := hours[len(hours)-1].hourMs + segment.HourMs - 1
	return reader.Read(series.Ref{Shard: s.number, ID: series.ID(id)}, hours[0].hourMs, toMs, func(times []int64, _ []float64) error {
		for _, at := range times {
			hourMs := segment.HourOf(at).FromMs
			for len(hours) > 0 && hours[0].hourMs < hourMs {
				hours = hours[1:]
			}
			if len(hours) > 0 && hours[0].hourMs == hourMs {
				known[hours[0]] = struct{}{}
			}
		}
		return nil
	})
}

// applyHoursLocked applies a batch of hours, whose definitions have been read.
func (s *shard) applyHoursLocked() error {
	var refusal error
	err := eachHour(&s.mu.reader, func(g *hourGroup) error {
		err := s.applyHourLocked(g)
		if err != nil && !errors.Is(err, ErrStalled) {
			s.engine.stats.samplesSkipped.Add(1)
			refusal, err = err, nil
		}
		return err
	})
	if err == nil {
		err = refusal
	}
	return err
}

func (s *shard) applyHourLocked(g *hourGroup) error {
	id := g.ref
	if id < uint32(series.SlotBase) && id >= s.mu.points.known {
		s.engine.stats.samplesSkipped.Add(1)
		return nil
	}
	if !g.isHour() {
		return fmt.Errorf("%w: %d points of the hour from %d ms on are no hour", series.ErrBatch, g.columns.Len(), g.hourMs)
	}
	// Neither refuses the batch, as a replay may know later cuts, and its id would be remembered otherwise. The leader has looked: HoursTaken.
	last := g.columns.Times[g.columns.Len()-1]
	if last < s.mu.points.cutMs || g.hourMs < scan.TimeMsMin || last > scan.TimeMsMax || !s.tooLateLocked(id, g.hourMs+segment.HourMs-1) {
		s.engine.stats.samplesSkipped.Add(1)
		return nil
	}
	if id >= uint32(series.SlotBase) {
		var err error
		if id, err = s.slotLocked(id-uint32(series.SlotBase), g.columns.Times[0]); err != nil {
			return err
		}
	}
	at := hourKey{id, g.hourMs}
	if _, known := s.mu.hours[at]; known {
		s.engine.stats.samplesTooLate.Add(1)
		return nil
	}
	payload, ok := page.EncodeFloats(nil, &g.columns)
	if !ok {
		return fmt.Errorf("%w: the hour from %d ms on does not fit into a page", series.ErrBatch, g.hourMs)
	}
	s.mu.watches.touchAll(g.columns.Times)
	if err := s.mu.set.SealOlder(id, payload); err != nil {
		return stalled(err)
	}
	times := g.columns.Times
	s.engine.index.MarkActiveWithin(s.number, series.ID(id), times[0], times[len(times)-1])
	s.engine.stats.samples.Add(1)
	s.mu.hours[at] = struct{}{}
	return nil
}

// HoursTaken returns an error unless all hours of a batch lie before the cuts of their series, so that they may be taken.
// Errors: series.ErrBatch.
func (e *Engine) HoursTaken(shard uint16, batch []byte) error {
	s := e.shards[shard]
	var r series.BatchReader
	var keys []series.Key
	for r.Reset(batch); ; {
		key, ok := r.NextDefinition()
		if !ok {
			break
		}
		keys = append(keys, key)
	}
	table := s.thin.Load().table
	return eachHour(&r, func(g *hourGroup) (err error) {
		cutMs := int64(retention.NoCut)
		if n := g.ref - uint32(series.SlotBase); g.ref < uint32(series.SlotBase) {
			cutMs, err = s.ThinCutOf(g.ref)
		} else if n < uint32(len(keys)) && table != nil {
			cutMs = table.Of(keys[n])
		}
		if err == nil && g.hourMs+segment.HourMs > cutMs {
			err = notBeforeCut(g.hourMs)
		}
		return err
	})
}

func notBeforeCut(hourMs int64) error {
	return fmt.Errorf("%w: the hour from %d ms on does not lie before the cut of its series", series.ErrBatch, hourMs)
}
