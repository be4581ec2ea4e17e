package api

import (
	"github.com/tickmesh/tickmesh/api/series"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// outgoing is one batch on its way to the Writer.
type outgoing struct {
	frame       series.Frame
	encoders    []series.BatchEncoder
	definitions [][]uint32        // by part: the handles of its definitions
	partOf      map[uint16]uint32 // by shard
	bytes       []byte
	named       []namedSeries // in the order in which the batch met them
	wrong       []wrongSeries // whose samples are left out
	shares      []share       // what it has of each database, taken out of their rates
}

// namedSeries is a series of the batch. Keys do not change; what a handle names does.
type namedSeries struct {
	handle uint32
	shard  uint16
	key    series.Key
}

const namedSeriesBytes = 32

type wrongSeries struct {
	handle uint32
	err    error
}

func newOutgoing() *outgoing { return &outgoing{partOf: map[uint16]uint32{}} }

// outgoingBytesKept bounds the memory that waits for another batch.
const outgoingBytesKept = 1 << 20

// begin empties it.
func (o *outgoing) begin(id series.BatchID) {
	o.restart()
	clear(o.named)
	clear(o.wrong)
	o.named, o.wrong, o.shares = o.named[:0], o.wrong[:0], o.shares[:0]
	o.frame = series.Frame{Parts: o.frame.Parts[:0], ID: id}
}

// restart empties the frame.
func (o *outgoing) restart() {
	for i := range o.frame.Parts {
		o.encoders[i].Reset()
		o.definitions[i] = o.definitions[i][:0]
	}
	clear(o.partOf)
	o.frame.Parts, o.frame.Generation = o.frame.Parts[:0], 0
}

// isLarge reports whether it should not wait for another batch.
func (o *outgoing) isLarge() bool {
	n := cap(o.bytes) + namedSeriesBytes*cap(o.named)
	for i := range o.encoders {
		n += o.encoders[i].MemoryBytes() + 4*cap(o.definitions[i])
	}
	return n > outgoingBytesKept
}

// reference returns the part for a handle's points, and the reference of its series
// in it: its id, or a new definition.
func (o *outgoing) reference(h *handle, number uint32) (part uint32, ref series.ID) {
	o.named = append(o.named, namedSeries{number, h.shard, h.key})
	if h.known {
		return o.part(h.shard), h.id
	}
	return o.define(&o.named[len(o.named)-1])
}

func (o *outgoing) define(n *namedSeries) (part uint32, ref series.ID) {
	part = o.part(n.shard)
	o.definitions[part] = append(o.definitions[part], n.handle)
	return part, o.encoders[part].Define(n.key)
}

// encodeKeys encodes the batch again, without ids: for when those that it was encoded
// with are not valid any more. It depends on nothing that later batches of the stream
// change.
func (o *outgoing) encodeKeys(b *tickmeshv1.Batch) {
	type place struct {
		part  uint32
		ref   series.ID
		scale uint8
	}
	o.restart()
	places := make(map[uint32]*place, len(o.named))
	for i := range o.named {
		p := &place{scale: series.ScaleFloat}
		p.part, p.ref = o.define(&o.named[i])
		places[o.named[i].handle] = p
	}
	t := int64(0)
	for i, number := range b.GetHandles() {
		t += b.GetTimeDeltasMs()[i]
		p := places[number]
		if p == nil {
			continue // it is wrong and left out
		}
		n := series.DecimalOf(b.GetValues()[i], p.scale)
		p.scale = n.Scale
		o.encoders[p.part].Append(p.ref, t, n.Mantissa, n.Scale)
	}
	o.finish(o.frame.Points)
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

// refused returns the handle of a refusal, if it names one.
func (o *outgoing) refused(r *series.Refusal) (number uint32, ok bool) {
	if r.Part < 0 || r.Part >= len(o.frame.Parts) || r.Definition < 0 || r.Definition >= len(o.definitions[r.Part]) {
		return 0, false
	}
	return o.definitions[r.Part][r.Definition], true
}
