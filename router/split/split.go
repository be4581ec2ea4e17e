package split

import (
	"errors"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/parse"
)

// Resolver knows the series that exist.
type Resolver interface {
	// Resolve gives the series of a key. Hint is the Hint of the Ref that was
	// found just before for the same line, or 0: series created one after the
	// other are often asked for one after the other. The key is only valid
	// during the call.
	Resolve(hint uint32, key series.Key) (series.Ref, bool)
}

// Options of a Splitter.
type Options struct {
	Shards int          // number of shards of the cluster, 1 to 65,536
	Limits parse.Limits // the same as the parser's
}

// ErrOptions marks options that cannot be used.
var ErrOptions = errors.New("splitter options")

// Splitter splits batches. Its memory is bounded by its memo and by the largest
// batch that it has met.
type Splitter struct {
	options Options
	frame   series.Frame
}

// New makes a Splitter.
func New(o Options) (*Splitter, error) {
	if o.Shards < 1 || o.Shards > 1<<16 {
		return nil, ErrOptions
	}
	return &Splitter{options: o}, nil
}

// Split encodes the points of a batch. Errors in the identity of a line are
// added to the batch. Ids that the memo holds are dropped when epoch differs
// from the call before: the caller changes it whenever an id may have become
// invalid. The frame is valid until the next call of Split.
func (s *Splitter) Split(b *parse.Batch, database []byte, r Resolver, epoch uint64) *series.Frame {
	return &s.frame
}

// Refused adds an error to the batch for every line that has points of a refused
// definition, and gives the number of points that were left out. It must follow
// the Split that made the frame.
func (s *Splitter) Refused(b *parse.Batch, outcome series.Outcome) (points int) {
	return 0
}
