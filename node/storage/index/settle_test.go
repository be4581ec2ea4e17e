package index

import (
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestSettledSeriesTakeNoMemory deletes all series of a year in which all were active on every
// day: what says so was shared, and must not become a bitmap for each day.
func TestSettledSeriesTakeNoMemory(t *testing.T) {
	const series, days = 8 * markBits, 365
	a := newActivity(&Options{FS: vfs.NewMemFS(), Dir: "data"})
	a.complete.Store(true)
	for d := range Day(days) {
		for n := range uint32(series) {
			a.mark(d, n)
		}
	}
	before := a.stats().bytes
	locals := make([]uint32, series-1)
	for i := range locals {
		locals[i] = uint32(i)
	}
	a.empty(locals)
	a.clearEmptied(a.emptiedNow())
	if after := a.stats().bytes; after > 2*before {
		t.Errorf("marks take %d bytes, %d before the delete", after, before)
	}
	if a.active(7, 0) || !a.active(7, series-1) {
		t.Error("not the series that were deleted are gone")
	}
}
