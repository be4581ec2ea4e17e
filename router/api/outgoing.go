package api

import (
	"github.com/tickmesh/tickmesh/api/series"
)

// outgoing is one batch on its way to the Writer.
type outgoing struct {
	frame       series.Frame
	encoders    []series.BatchEncoder
	definitions [][]uint32        // by part: the handles of its definitions
	partOf      map[uint16]uint32 // by shard
	bytes       []byte
	wrong       []wrongSeries // whose samples are left out
}

type wrongSeries struct {
	handle uint32
	err    error
}

func newOutgoing() *outgoing { return &outgoing{partOf: map[uint16]uint32{}} }

// outgoingBytesKept bounds the memory that waits for another batch.
const outgoingBytesKept = 1 << 20

// begin empties it.
func (o *outgoing) begin(id series.BatchID) {
	for i := range o.frame.Parts {
		o.encoders[i].Reset()
		o.definitions[i] = o.definitions[i][:0]
	}
	clear(o.partOf)
	clear(o.wrong)
	o.wrong = o.wrong[:0]
	o.frame = series.Frame{Parts: o.frame.Parts[:0], ID: id}
}

// isLarge says that it should not wait for another batch.
func (o *outgoing) isLarge() bool {
	n := cap(o.bytes)
	for i := range o.encoders {
		n += o.encoders[i].MemoryBytes() + 4*cap(o.definitions[i])
	}
	return n > outgoingBytesKept
}

// reference gives the part for a handle's points, and the reference of its series
// in it: its id, or a new definition.
func (o *outgoing) reference(h *handle, number uint32) (part uint32, ref series.ID) {
	part = o.part(h.shard)
	if h.known {
		return part, h.id
	}
	o.definitions[part] = append(o.definitions[part], number)
	return part, o.encoders[part].Define(h.key)
}

// leaveOut notes a handle whose samples are left out.
func (o *outgoing) leaveOut(number uint32, h *handle) {
	if h.ref == refNone {
		h.ref = 0
		o.wrong = append(o.wrong, wrongSeries{number, h.wrong})
	}
}

func (o *outgoing) part(shard uint16) uint32 {
	if part, ok := o.partOf[shard]; ok {
		return part
	}
	part := uint32(len(o.frame.Parts))
	o.partOf[shard] = part
	o.frame.Parts = append(o.frame.Parts, series.Part{Shard: shard})
	if int(part) == len(o.encoders) {
		o.encoders, o.definitions = append(o.encoders, series.BatchEncoder{}), append(o.definitions, nil)
	}
	return part
}

// finish writes the parts' encodings one behind the other.
func (o *outgoing) finish(points int) {
	size := 0
	for i := range o.frame.Parts {
		size += o.encoders[i].SizeMax()
	}
	if cap(o.bytes) < size {
		o.bytes = make([]byte, 0, size)
	}
	b := o.bytes[:0]
	for i := range o.frame.Parts {
		start := len(b)
		b = o.encoders[i].AppendTo(b)
		o.frame.Parts[i].Batch = b[start:len(b):len(b)]
	}
	o.bytes, o.frame.Points = b, points
}

// refused gives the handle of a refusal, if it names one.
func (o *outgoing) refused(r *series.Refusal) (number uint32, ok bool) {
	if r.Part < 0 || r.Part >= len(o.frame.Parts) || r.Definition < 0 || r.Definition >= len(o.definitions[r.Part]) {
		return 0, false
	}
	return o.definitions[r.Part][r.Definition], true
}
