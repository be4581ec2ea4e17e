package transfer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/retention"
)

// ErrStream marks bytes that are not what an Export writes.
var ErrStream = errors.New("not the stream of a shard")

// The versions of the stream, in its header: that of a shard that has forgotten series is another one, as a program
// that does not know of that would take them for series. FORMAT.md has the layout.
const (
	streamFormat        = 1
	streamFormatForgets = 2
	streamFormatThins   = 3 // of a shard with hours of which the last sample is kept, whether it has forgotten series or not
	streamFormatGaps    = 4 // of a shard that has forgotten series, whose keys are empty
)

// The kinds of frames, in the order in which they come.
const (
	frameHeader    = 1 // JSON: streamHeader
	frameBatches   = 2 // the table of batch ids
	frameTombstone = 3 // one each
	frameKeys      = 4 // of series, by id: uvarint length, key
	frameSegment   = 5 // the next bytes of the present segment's file
	frameEnd       = 6 // nothing
	frameForgotten = 7 // ids of series that are forgotten, before the keys
)

// ShardExport describes what a stream brings.
type ShardExport struct {
	Shard uint16 `json:"shard"`
	// Index is the entry that the state stands for. Replaying all entries behind it
	// gives the sender's state; but samples and deletes up to the entry Through may
	// be there already, so before that one is applied the shard is no state that
	// ever was, and nothing may be read from it.
	Index   uint64 `json:"index"`
	Through uint64 `json:"through"`
	CutMs   int64  `json:"cutMs"` // samples before it are gone
	// retention.Cuts are cuts of some series, see retention.Cuts.
	RuleCuts []retention.Cuts `json:"ruleCuts,omitempty"`
	// ThinCuts are the cuts before which the last sample of each hour of some series is kept.
	ThinCuts []retention.Cuts `json:"thinCuts,omitempty"`
	Series   uint32           `json:"series"` // ids that have been given
	// Forgotten is how many of them are forgotten; the keys of these are there all the same, unless NoKeys is set: then they are empty.
	Forgotten uint32 `json:"forgotten,omitempty"`
	NoKeys    bool   `json:"noKeys,omitempty"`
	Samples   int64  `json:"samples"`
	Bytes     int64  `json:"bytes"` // of all frames but the first
}

// formatOf returns the version of the stream of a shard.
func formatOf(x *ShardExport) int {
	switch {
	case x.NoKeys:
		return streamFormatGaps
	case len(x.ThinCuts) > 0:
		return streamFormatThins
	case x.Forgotten > 0:
		return streamFormatForgets
	default:
		return streamFormat
	}
}

// streamHeader begins a stream.
type streamHeader struct {
	Format   int     `json:"format"`
	Shards   int     `json:"shards"` // of the sender's folder
	Segments []int64 `json:"segments"`
	// Exemplars is the ring of exemplars, encoded. It is here, and not in a frame, as programs that do not know it pass over it.
	Exemplars []byte `json:"exemplars,omitempty"`
	ShardExport
}

// streamTombstone is a delete that hides samples of the first segments.
type streamTombstone struct {
	hides        uint64 // so many segments
	entry        uint64
	ids          []uint32
	fromMs, toMs int64
}

func (t *streamTombstone) encode() []byte {
	b := binary.AppendUvarint(nil, t.hides)
	b = binary.AppendUvarint(b, t.entry)
	return append(b, entry.DeleteBody(t.ids, t.fromMs, t.toMs)...)
}

func decodeStreamTombstone(b []byte) (t streamTombstone, err error) {
	for _, field := range [...]*uint64{&t.hides, &t.entry} {
		v, used := binary.Uvarint(b)
		if used <= 0 {
			return t, fmt.Errorf("%w: a tombstone", ErrStream)
		}
		*field, b = v, b[used:]
	}
	if t.ids, t.fromMs, t.toMs, err = entry.ParseDeleteBody(b); err != nil {
		return t, fmt.Errorf("%w: %w", ErrStream, err)
	}
	return t, nil
}
