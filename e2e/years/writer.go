package years

import (
	"context"
	"errors"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
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
func (b *Batch) encode(n Store, id series.BatchID) {
	sharding := n.Sharding()
	encoders := make([]series.BatchEncoder, sharding.Shards)
	refs, eras := b.resolve(n)
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
			b.frame.Parts = append(b.frame.Parts, series.Part{Shard: uint16(shard), Era: eras[shard], Batch: e.AppendTo(nil)})
			b.frame.Points += e.Points()
		}
	}
}

// resolve returns the references of the samples' series, and the eras that they are of, by shard.
func (b *Batch) resolve(n Store) (refs []series.Ref, eras []uint32) {
	sharding := n.Sharding()
	refs, eras = make([]series.Ref, len(b.Samples)), make([]uint32, sharding.Shards)
	places := make([][]int, sharding.Shards)
	for i := range b.Samples {
		shard := sharding.Of(b.Samples[i].Key)
		places[shard] = append(places[shard], i)
	}
	for shard, of := range places {
		if len(of) == 0 {
			continue
		}
		keys, found := make([]series.Key, len(of)), make([]series.Ref, len(of))
		for i, place := range of {
			keys[i] = b.Samples[place].Key
		}
		eras[shard] = n.ResolveIn(uint16(shard), keys, found)
		for i, place := range of {
			refs[place] = found[i]
		}
	}
	return refs, eras
}

// send sends the batch once; and again in other words if a series was forgotten since it was resolved.
func (b *Batch) send(n Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	err := n.WriteFrame(ctx, &b.frame)
	if errors.Is(err, series.ErrEra) {
		b.encode(n, b.frame.ID)
		err = n.WriteFrame(ctx, &b.frame)
	}
	return err
}
