package segment

import (
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// dayEnds are the ends of the open day.
type dayEnds struct {
	recordEnds
	known    bool // the day has a sample that counts
	min, max float64
}

// add takes the next samples of the day, all of one hour. Values are those of the columns, the
// hour and its ends those of all its samples so far: only where it goes beyond the day's extremes the
// values are searched.
func (d *dayEnds) add(c *codec.Columns, values []float64, hour *aggregate, ends *recordEnds) {
	least, most := hour.extremes()
	fresh := !d.known
	if fresh {
		d.first, d.firstMs, d.known = ends.first, ends.firstMs, true
	}
	d.last, d.lastMs = ends.last, ends.lastMs
	if fresh || least < d.min {
		d.min, d.minMs = least, c.Times[slices.Index(values, least)]
	}
	if fresh || most > d.max {
		d.max, d.maxMs = most, c.Times[slices.Index(values, most)]
	}
}

func isNumber(v float64) bool { return !math.IsNaN(v) }

// addRecord takes an hour of which the samples are gone. When within it its extremes were is not known any more: they
// count as of its first sample.
func (d *dayEnds) addRecord(r *rollupRecord) {
	fresh := !d.known
	if fresh {
		d.first, d.firstMs, d.known = r.first, r.firstMs, true
	}
	d.last, d.lastMs = r.last, r.lastMs
	if least := r.min.Float64(); fresh || least < d.min {
		d.min, d.minMs = least, r.firstMs
	}
	if most := r.max.Float64(); fresh || most > d.max {
		d.max, d.maxMs = most, r.firstMs
	}
}
