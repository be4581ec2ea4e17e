package api

import (
	"github.com/tickmesh/tickmesh/api/series"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// outgoing is one batch on its way to the Writer.
type outgoing struct {
	encoder     series.FrameEncoder
	definitions [][]uint32    // by part: the handles of its definitions
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

// outgoingBytesKept bounds the memory that waits for another batch.
const outgoingBytesKept = 1 << 20

// begin empties it, for a frame with the header.
func (o *outgoing) begin(header series.Frame) {
	o.restart(header)
	clear(o.named)
	clear(o.wrong)
	o.named, o.wrong, o.shares = o.named[:0], o.wrong[:0], o.shares[:0]
}

// restart empties the frame.
func (o *outgoing) restart(header series.Frame) {
	for i := range o.definitions {
		o.definitions[i] = o.definitions[i][:0]
	}
	o.encoder.Begin(header)
}

// isLarge reports whether it should not wait for another batch.
func (o *outgoing) isLarge() bool {
	n := o.encoder.MemoryBytes() + namedSeriesBytes*cap(o.named)
	for i := range o.definitions {
		n += 4 * cap(o.definitions[i])
	}
	return n > outgoingBytesKept
}

// reference returns the part for a handle's points, and the reference of its series
// in it: its id, or a new definition.
func (o *outgoing) reference(h *handle, number uint32) (part int, ref series.ID) {
	o.named = append(o.named, namedSeries{number, h.shard, h.key})
	if h.known {
		return o.encoder.Part(h.shard), h.id
	}
	return o.define(&o.named[len(o.named)-1])
}

func (o *outgoing) define(n *namedSeries) (part int, ref series.ID) {
	part = o.encoder.Part(n.shard)
	for len(o.definitions) <= part {
		o.definitions = append(o.definitions, nil)
	}
	o.definitions[part] = append(o.definitions[part], n.handle)
	return part, o.encoder.Batch(part).Define(n.key)
}

// encodeKeys encodes the batch again, without ids: for when those that it was encoded
// with are not valid any more. It depends on nothing that later batches of the stream
// change.
func (o *outgoing) encodeKeys(b *tickmeshv1.Batch) {
	type place struct {
		part  int
		ref   series.ID
		scale uint8
	}
	frame := o.encoder.Frame()
	points, header := frame.Points, *frame
	header.Generation = 0
	o.restart(header)
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
		o.encoder.Batch(p.part).Append(p.ref, t, n.Mantissa, n.Scale)
	}
	o.encoder.Finish(points)
}

// leaveOut notes a handle whose samples are left out.
func (o *outgoing) leaveOut(number uint32, h *handle) {
	if h.ref == refNone {
		h.ref = 0
		o.wrong = append(o.wrong, wrongSeries{number, h.wrong})
	}
}

// refused returns the handle of a refusal, if it names one.
func (o *outgoing) refused(r *series.Refusal) (number uint32, ok bool) {
	if r.Part < 0 || r.Part >= len(o.definitions) || r.Definition < 0 || r.Definition >= len(o.definitions[r.Part]) {
		return 0, false
	}
	return o.definitions[r.Part][r.Definition], true
}
