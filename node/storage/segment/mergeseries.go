package segment

import (
	"math"
	"sort"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// mergeSeries merges one series of the active inputs.
func (m *merger) mergeSeries(shard uint16, id uint32) error {
	// What is pending from here on is of this series.
	if err := m.w.keep(m.w.section.endSeries()); err != nil {
		return err
	}
	for _, in := range m.active {
		in.hidden = in.hidden[:0]
		if m.o.Hidden != nil {
			in.hidden = m.o.Hidden(in.hidden, &in.reader.meta, shard, id)
		}
		if err := in.hours.load(in.reader, shard, id); err != nil {
			return err
		}
	}
	m.thinner.begin(m.o.ThinBefore, shard, id)
	if err := m.carrier.begin(m, id); err != nil {
		return err
	}
	for {
		in, nextMs := m.pick(shard, id)
		if in == nil {
			err := m.endThinned()
			m.carrier.end(m)
			return err
		}
		if err := m.step(in, shard, id, nextMs); err != nil {
			return err
		}
	}
}

// pick returns the input with the earliest next sample, of equal ones the oldest
// input, and the time from which on another input has samples.
func (m *merger) pick(shard uint16, id uint32) (first *input, nextMs int64) {
	nextMs = math.MaxInt64
	firstMs := int64(math.MaxInt64)
	for _, in := range m.active {
		if !in.has(shard, id) {
			continue
		}
		t := in.firstMs()
		if first == nil || t < firstMs {
			if first != nil {
				nextMs = firstMs
			}
			first, firstMs = in, t
		} else {
			nextMs = min(nextMs, t)
		}
	}
	return first, nextMs
}

// step moves the samples of in that come before nextMs, of which there is at
// least one unless it is replaced by an equal time of a later input.
func (m *merger) step(in *input, shard uint16, id uint32, nextMs int64) error {
	if !in.decoded {
		if m.copyable(in, nextMs) {
			return m.copyBlock(in, shard, id)
		}
		if err := in.decode(); err != nil {
			return err
		}
	}
	times := in.columns.Times
	n := len(times)
	if times[n-1] >= nextMs {
		n = sort.Search(n, func(i int) bool { return times[i] >= nextMs })
	}
	if n == 0 { // firstMs == nextMs: a later input has this time as well
		in.hours.enter(times[0])
		m.drop(id, &in.columns, 1)
		return in.pass(1)
	}
	part := columnsBetween(&in.columns, 0, n)
	add := m.addVisible
	if m.o.Thinned {
		add = m.addThinned
	}
	if err := add(in, shard, id, part); err != nil {
		return err
	}
	return in.pass(n)
}

// addVisible writes the samples that no tombstone hides.
func (m *merger) addVisible(in *input, shard uint16, id uint32, part codec.Columns) error {
	for part.Len() > 0 {
		times := part.Times
		shown := len(times)
		if len(in.hidden) > 0 && in.hides(times[0], times[len(times)-1]) {
			shown = 0
			for shown < len(times) && !in.hides(times[shown], times[shown]) {
				shown++
			}
		}
		if shown > 0 {
			visible := columnsBetween(&part, 0, shown)
			if err := m.add(shard, id, &visible); err != nil {
				return err
			}
		}
		end := shown
		for end < len(times) && in.hides(times[end], times[end]) {
			end++
		}
		gone := columnsBetween(&part, shown, end)
		m.drop(id, &gone, gone.Len())
		part = columnsBetween(&part, end, len(times))
	}
	return nil
}

func (m *merger) add(shard uint16, id uint32, c *codec.Columns) error {
	w := m.w
	if err := w.enter(shard, id, c.Times[0]); err != nil {
		return err
	}
	return w.keep(w.section.add(c))
}

// copyable reports whether the whole current block may go into the output as it is
// stored: nothing else reaches into its time, and it has the size of an output's
// block, so that copying does not leave many small ones.
func (m *merger) copyable(in *input, nextMs int64) bool {
	b := in.block()
	meta := &m.w.meta
	if b.maxMs >= nextMs || in.reader.meta.Dense != meta.Dense || b.samples > meta.BlockSamples {
		return false
	}
	if len(in.hidden) > 0 && in.hides(b.minMs, b.maxMs) {
		return false
	}
	if in.reader.meta.Thinned || b.minMs < m.thinner.beforeMs {
		return false
	}
	if b.samples == meta.BlockSamples {
		// Pending samples become a block of their own, if a large one.
		pending := m.w.section.pending.Len()
		return pending == 0 || pending >= meta.BlockSamples*3/4
	}
	return m.w.section.pending.Len() == 0 && m.lastBlock(in)
}

// lastBlock reports whether the current block ends its series.
func (m *merger) lastBlock(in *input) bool {
	if in.at+1 >= len(in.blocks) || in.ids[in.at+1] == in.ids[in.at] {
		return false // at the end of a page the next block is not known: no
	}
	for _, other := range m.active {
		if other != in && other.has(in.shard, in.id()) {
			return false
		}
	}
	return true
}

// copyBlock copies the current block. Rollups, if asked for, need its samples.
func (m *merger) copyBlock(in *input, shard uint16, id uint32) (err error) {
	w := m.w
	b := *in.block()
	if err = m.endThinned(); err != nil {
		return err
	}
	if err = w.enter(shard, id, b.minMs); err != nil {
		return err
	}
	if w.meta.Rollups {
		if err = in.decode(); err != nil {
			return err
		}
		w.section.foldRollups(&in.columns, false)
		in.decoded = false
	}
	if m.encoded, err = in.encoded(m.encoded[:0]); err != nil {
		return err
	}
	if err = w.keep(w.section.addEncoded(b, m.encoded)); err != nil {
		return err
	}
	return in.next()
}
