package sim

import (
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
