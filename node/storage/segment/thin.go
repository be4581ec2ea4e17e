package segment

import (
	"math"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// thinner keeps the last sample of each hour of a series. It is a part of merger.
type thinner struct {
	beforeMs int64         // samples before it are thinned
	held     codec.Columns // the last one of the open hour, if that is thinned
	visible  codec.Columns // scratch
}

func (t *thinner) begin(before func(shard uint16, id uint32) int64, shard uint16, id uint32) {
	t.beforeMs = math.MinInt64
	if before != nil {
		t.beforeMs = before(shard, id)
	}
}

// addThinned takes samples of one input into an output that is thinned. What is hidden is left out.
func (m *merger) addThinned(in *input, shard uint16, id uint32, part codec.Columns) error {
	for part.Len() > 0 {
		n := max(1, hourEnd(part.Times, floorTo(part.Times[0], HourMs)+HourMs))
		hour := columnsBetween(&part, 0, n)
		part = columnsBetween(&part, n, part.Len())
		record, first := in.hours.enter(hour.Times[0])
		visible := m.showVisible(in, id, &hour)
		if visible.Len() == 0 {
			continue
		}
		if err := m.w.enter(shard, id, visible.Times[0]); err != nil {
			return err
		}
		if !first {
			record = nil
		}
		if err := m.w.keep(m.addHour(id, visible, record, in.hours.thinned)); err != nil {
			return err
		}
	}
	return nil
}

// showVisible returns the samples of an hour that are not hidden; the others go out of the digest.
func (m *merger) showVisible(in *input, id uint32, hour *codec.Columns) *codec.Columns {
	if len(in.hidden) == 0 || !in.hides(hour.Times[0], hour.Times[hour.Len()-1]) {
		return hour
	}
	visible := &m.thinner.visible
	visible.Reset()
	for i, t := range hour.Times {
		one := columnsBetween(hour, i, i+1)
		if in.hides(t, t) {
			m.drop(id, &one, 1)
			continue
		}
		appendColumns(visible, &one)
	}
	return visible
}

// addHour takes visible samples of one hour, and the record that tells of them instead, if there is one.
func (m *merger) addHour(id uint32, c *codec.Columns, record *rollupRecord, recorded bool) error {
	t, s := &m.thinner, &m.w.section
	hourMs := floorTo(c.Times[0], HourMs)
	if t.held.Len() > 0 && floorTo(t.held.Times[0], HourMs) != hourMs {
		if err := m.endThinned(); err != nil {
			return err
		}
	}
	switch {
	case record != nil:
		s.foldRecord(record)
	case !recorded || s.rollups.hour.startMs != hourMs:
		s.foldRollups(c, true)
	}
	if hourMs >= t.beforeMs && t.held.Len() == 0 {
		return s.storeKept(c)
	}
	if t.held.Len() > 0 {
		m.drop(id, &t.held, 1)
		t.held.Reset()
	}
	last := columnsBetween(c, c.Len()-1, c.Len())
	m.drop(id, c, c.Len()-1)
	appendColumns(&t.held, &last)
	return nil
}

// endThinned writes the sample that is held.
func (m *merger) endThinned() error {
	held := &m.thinner.held
	if held.Len() == 0 {
		return nil
	}
	err := m.w.keep(m.w.section.storeKept(held))
	held.Reset()
	return err
}
