package years

import (
	"context"
	"errors"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node"
)

// bound is far above what anything here takes; no result depends on it.
const bound = 5 * time.Minute

// Batch is samples that are written at once, with the id by which they can be sent again.
type Batch struct {
	Samples []Sample
	frame   series.Frame
	sent    bool // before, without an acknowledgement
}

// encode makes the frame, as a router does: with the ids of series that it can find, and the keys of others.
func (b *Batch) encode(n *node.Node, id series.BatchID) {
	sharding := n.Sharding()
	encoders := make([]series.BatchEncoder, sharding.Shards)
	keys := make([]series.Key, len(b.Samples))
	for i := range b.Samples {
		keys[i] = b.Samples[i].Key
	}
	refs := make([]series.Ref, len(keys))
	n.Resolve(series.HintNone, keys, refs)
	defined := map[string]series.ID{}
	for i := range b.Samples {
		s := &b.Samples[i]
		e := &encoders[sharding.Of(s.Key)]
		ref := refs[i].ID
		if refs[i].Hint == series.HintNone {
			var again bool
			if ref, again = defined[string(s.Key)]; !again {
				ref = e.Define(s.Key)
				defined[string(s.Key)] = ref
			}
		}
		number := series.DecimalOf(s.Value, 2)
		e.Append(ref, s.TimeMs, number.Mantissa, number.Scale)
	}
	b.frame = series.Frame{ID: id}
	for shard := range encoders {
		if e := &encoders[shard]; e.Points() > 0 {
			b.frame.Parts = append(b.frame.Parts, series.Part{Shard: uint16(shard), Batch: e.AppendTo(nil)})
			b.frame.Points += e.Points()
		}
	}
}

// send sends the batch once; and again in other words if a series was forgotten since it was resolved.
func (b *Batch) send(n *node.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	_, err := n.Write(ctx, &b.frame)
	if errors.Is(err, series.ErrEra) {
		b.encode(n, b.frame.ID)
		_, err = n.Write(ctx, &b.frame)
	}
	return err
}
