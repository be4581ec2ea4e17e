package sim

import (
	"encoding/binary"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage/entry"
)

// forget proposes to forget what a shard has without samples, as node.forget does; or some time later, so that other entries
// may come before.
func (p *process) forget(shard uint16) {
	w := p.world
	status, err := p.machine.Host().Status(shard)
	if err != nil || !status.Leads {
		return
	}
	all := make([]uint32, p.engine.ShardStats(shard).Series)
	for id := range all {
		all[id] = uint32(id)
	}
	propose := func(ids []uint32, after uint64) *commit.Write {
		f := &commit.Write{Done: func() {}}
		f.Add(entry.Forget, shard, entry.ForgetBody(after, ids))
		f.Begin()
		return f
	}
	if w.chance(2) {
		if ids, after := p.engine.EmptySeries(shard, all); len(ids) > 0 {
			p.after(w.between(0, 20_000), func() {
				p.inbox.writes = append(p.inbox.writes, &write{Write: commit.Write{Done: func() {}}})
				late := p.inbox.writes[len(p.inbox.writes)-1]
				late.Add(entry.Forget, shard, entry.ForgetBody(after, ids))
				late.Begin()
				p.wake()
			})
		}
		return
	}
	p.command(func() {
		if ids, after := p.engine.EmptySeries(shard, all); len(ids) > 0 {
			p.machine.ProposeNext(propose(ids, after), after)
		}
	})
}

// forget applies an entry that forgets: none of its series may have samples.
func (o *oracle) forget(s *shardOracle, shard uint16, e *entry.Entry) {
	after, ids, err := parseForget(e.Body)
	if err != nil {
		o.world.fail(9, "shard %d index %d: series to forget that cannot be: %v", shard, e.Index, err)
		return
	}
	if after+1 != e.Index {
		return
	}
	for _, id := range ids {
		if id >= s.content.known() || s.content.forgotten(id) || !s.content.empty(uint64(s.content.keys[id])) {
			o.world.fail(10, "shard %d index %d: id %d of %d is to be forgotten, which is so already, or has samples", shard, e.Index, id, s.content.known())
			return
		}
		s.content.ids[s.content.keys[id]] = 0
		o.world.stats.Forgotten++
	}
}

// namesForgotten reports whether a batch names a series that is forgotten, and so is not applied.
func (s *shardOracle) namesForgotten(batch []byte) bool {
	var r series.BatchReader
	r.Reset(batch)
	for ok := true; ok; {
		_, ok = r.NextDefinition()
	}
	for r.NextPoint() {
		if id := uint64(r.Ref); r.Ref < uint32(series.SlotBase) && id < s.content.known() && s.content.forgotten(id) {
			return true
		}
	}
	return false
}

// parseForget reads the body of an entry that forgets, without the product's code.
func parseForget(body []byte) (after uint64, ids []uint64, err error) {
	unsigned := func() uint64 { return next(&body, &err, binary.Uvarint) }
	after = unsigned()
	id := uint64(0)
	for range unsigned() {
		id += unsigned()
		if ids = append(ids, id); err != nil {
			break
		}
	}
	return after, ids, err
}
