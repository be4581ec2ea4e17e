package split

import "github.com/tickmesh/tickmesh/api/series"

// Encoded is a frame with its memory, apart from the Splitter that made it. The zero
// value is ready, and its memory is used again by the next Move.
type Encoded struct {
	frame series.Frame
	bytes []byte
}

// Frame returns the frame that was moved last.
func (e *Encoded) Frame() *series.Frame { return &e.frame }

// MemoryBytes returns about how much memory it keeps.
func (e *Encoded) MemoryBytes() int {
	const partBytes = 32
	return cap(e.bytes) + partBytes*cap(e.frame.Parts)
}

// Move moves the frame of the last Split with its memory to e, so that it outlives the
// next Split, and takes the memory that e had. Refused may follow all the same.
func (s *Splitter) Move(e *Encoded) {
	for i := range s.frame.Parts {
		s.partOf[s.frame.Parts[i].Shard] = 0
	}
	e.frame, s.frame = s.frame, series.Frame{Parts: e.frame.Parts[:0]}
	e.bytes, s.out = s.out, e.bytes[:0]
}

// Defines reports whether the frame of the last Split defines series: only these can be
// refused.
func (s *Splitter) Defines() bool { return len(s.definitions.list) > 0 }
