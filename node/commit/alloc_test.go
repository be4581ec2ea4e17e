//go:build !race

package commit

import (
	"testing"
)

// A write of known series allocates nothing on the commit path, however many shards it has parts
// for.
func TestWritesDoNotAllocate(t *testing.T) {
	turn := repeatedWrites(t, 128, 128, 4, 1200)
	for range 8 { // until buffers have their size
		turn()
	}
	if allocations := testing.AllocsPerRun(50, turn); allocations > 8 { // of 512 parts; the log's index grows
		t.Errorf("%.0f allocations", allocations)
	}
}
