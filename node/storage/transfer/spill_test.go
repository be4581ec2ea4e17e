package transfer

import (
	"fmt"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/read"
)

// TestFlushHelps names the errors that a flush goes around.
func TestFlushHelps(t *testing.T) {
	for err, want := range map[error]bool{
		&scan.LimitError{What: "bytes", Limit: 1}: true, fmt.Errorf("x: %w", codec.ErrCorrupt): true, read.ErrReplaced: false, read.ErrClosed: false,
	} {
		if flushHelps(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
