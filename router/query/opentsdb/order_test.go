package opentsdb

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSortColumns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "prefix")
		var columns []column
		for _, rest := range rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 255}), 0, 12), 1, 40).Draw(t, "rests") {
			columns = append(columns, column{key: append(slices.Clone(prefix), rest...)})
		}
		want := slices.Clone(columns)
		slices.SortFunc(want, func(a, b column) int { return bytes.Compare(a.key, b.key) })
		for i, c := range sortColumns(columns) {
			if !bytes.Equal(c.key, want[i].key) {
				t.Fatalf("column %d is %x, want %x", i, c.key, want[i].key)
			}
		}
	})
}
