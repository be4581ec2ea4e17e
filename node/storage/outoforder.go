package storage

// outOfOrder has the series of a shard whose sealed pages may not be in order of
// time: a page may hold samples older than those of a page before it. For all
// others a scan may stop walking back through the pages as soon as one begins
// before what it wants. What is known concerns live generations of the page log
// only, and is forgotten with them. It is guarded by the shard's lock.
type outOfOrder struct {
	series map[uint32]uint32 // id → generation in which it was last disturbed
	all    uint32            // every series counts as disturbed up to this generation
}

// outOfOrderSeriesMax bounds the memory; beyond it all series of the shard count.
const outOfOrderSeriesMax = 4096

// mark notes that the pages of a series are out of order up to a generation.
func (d *outOfOrder) mark(id, generation uint32) {
	if len(d.series) >= outOfOrderSeriesMax {
		d.all = generation
		clear(d.series)
		return
	}
	if d.series == nil {
		d.series = map[uint32]uint32{}
	}
	d.series[id] = generation
}

// ordered reports whether the pages of a series are in order of time, from the
// oldest live generation on.
func (d *outOfOrder) ordered(id, generationOldest uint32) bool {
	if d.all >= generationOldest {
		return false
	}
	generation, marked := d.series[id]
	return !marked || generation < generationOldest
}

// forget drops what concerns generations up to the given one.
func (d *outOfOrder) forget(generation uint32) {
	for id, g := range d.series {
		if g <= generation {
			delete(d.series, id)
		}
	}
}
