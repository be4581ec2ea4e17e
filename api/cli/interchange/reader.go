package interchange

import (
	"fmt"
	"io"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// ReadOptions say how text is read.
type ReadOptions struct {
	Database  string          // of all series
	Precision parse.Precision // unit of the times of line protocol; zero: nanoseconds
	NowMs     int64           // the time of lines without one
}

// Visitor is given samples in their order. The key is only valid during the call.
type Visitor func(key series.Key, timeMs int64, value float64) error

// Read reads text to its end. Errors: a *PlaceError for what cannot be read, those of
// the input, that of the visitor. All samples before were visited, but for up to a
// megabyte of line protocol, which is visited only if all of it can be read.
func Read(format Format, in io.Reader, o ReadOptions, visit Visitor) error {
	switch format {
	case Line:
		return newLineReader(in, o).read(visit)
	case CSV:
		return readCSV(in, o, visit)
	case JSON:
		return readJSON(in, o, visit)
	default:
		return fmt.Errorf("%w: format %q", ErrFormat, format)
	}
}
