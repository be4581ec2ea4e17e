package manifest

import (
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// DropHidden removes the samples from index start on that lie in one of the ranges.
func DropHidden(c *codec.Columns, start int, hidden []segment.TimeRange) {
	codec.KeepColumns(c, start, func(timeMs int64) bool { return !Hides(hidden, timeMs) })
}
