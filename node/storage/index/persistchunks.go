package index

import (
	"encoding/binary"
	"slices"
)

func (x *Index) persistOffsets(count uint32) error {
	if x.keys.offsets.Load() == nil {
		return nil
	}
	file := x.persister.offsets
	x.keys.mu.Lock()
	chunks, healed := *x.keys.offsets.Load(), x.keys.mu.healed // together: what is healed is in these chunks
	x.keys.mu.healed = nil
	x.keys.mu.Unlock()
	for i, n := range healed {
		if err := file.rewrite(n, bytesOf(chunks[n])); err != nil {
			x.keys.mu.Lock()
			x.keys.mu.healed = append(x.keys.mu.healed, healed[i:]...)
			x.keys.mu.Unlock()
			return err
		}
	}
	from, to := file.count.Load(), count/offsetChunk
	if to > from {
		if err := x.persister.room(int64(to-from) * file.bytes); err != nil {
			return err
		}
		if err := file.append(int(to-from), func(i int) []byte { return bytesOf(chunks[from+uint32(i)]) }); err != nil {
			return err
		}
		for n := from; n < to; n++ {
			healed = append(healed, n)
		}
	}
	if len(healed) == 0 {
		return nil
	}
	sealed := make([]*offsetsSeal, len(healed))
	for i, n := range healed {
		sealed[i] = newOffsetsSeal(bytesOf(chunks[n])) // of what was written, whatever the disk has made of it
		sealed[i].bytes = file.payload(n)[:offsetsBytes]
	}
	x.keys.mu.Lock()
	defer x.keys.mu.Unlock()
	next := slices.Clone(*x.keys.offsets.Load())
	seals := make([]*offsetsSeal, max(to, from))
	if before := x.keys.seals.Load(); before != nil {
		copy(seals, *before)
	}
	for i, n := range healed {
		next[n], seals[n] = offsetsOf(file.payload(n)), sealed[i]
	}
	x.keys.seals.Store(&seals)
	x.keys.offsets.Store(&next)
	return nil
}

func (x *Index) persistIDs(count uint32) error {
	type placed struct {
		shard uint16
		n     int
		chunk *idChunk
		place uint32
	}
	file := x.persister.ids
	payload := func(p *placed) []byte {
		b := binary.LittleEndian.AppendUint32(make([]byte, 0, idHeadBytes+idChunkBytes), uint32(p.shard))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.n))
		for entry := range p.chunk {
			b = binary.LittleEndian.AppendUint32(b, p.chunk[entry].Load())
		}
		return b
	}
	var list []placed
	if !file.shared() { // else they wait: an id may have got another record since
		x.shards.each(func(shard uint16, ids *shardIDs) {
			for _, h := range ids.takeHealed() {
				list = append(list, placed{shard, h.n, h.chunk, h.place})
			}
		})
	}
	for i := range list {
		if err := file.rewrite(list[i].place, payload(&list[i])); err != nil {
			for _, p := range list[i:] {
				ids := x.shards.get(p.shard)
				ids.mu.Lock()
				ids.healed = append(ids.healed, healedIDs{p.n, p.chunk, p.place})
				ids.mu.Unlock()
			}
			return err
		}
	}
	again, place := len(list), file.count.Load()
	x.shards.each(func(shard uint16, ids *shardIDs) {
		ids.unpersisted(count, x.forgets.of(shard), func(n int, c *idChunk) {
			list = append(list, placed{shard, n, c, place})
			place++
		})
	})
	if fresh := list[again:]; len(fresh) > 0 {
		if err := x.persister.room(int64(len(fresh)) * file.bytes); err != nil {
			return err
		}
		if err := file.append(len(fresh), func(i int) []byte { return payload(&fresh[i]) }); err != nil {
			return err
		}
	}
	copies := map[uint16]map[uint32]*sealedIDs{}
	for i := range list {
		p := &list[i]
		if copies[p.shard] == nil {
			copies[p.shard] = map[uint32]*sealedIDs{}
		}
		mapped := file.payload(p.place)[idHeadBytes:]
		sealed := &sealedIDs{seal: newSeal(payload(p)[idHeadBytes:]), chunk: idChunkOf(file.payload(p.place)), place: p.place}
		sealed.bytes = mapped
		copies[p.shard][uint32(p.n)] = sealed
	}
	for shard, of := range copies {
		x.shards.get(shard).persist(of)
	}
	return nil
}
