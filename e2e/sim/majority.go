package sim

import "github.com/tickmesh/tickmesh/node/replica"

// votersSeen are the configurations that a process has had of a group.
type votersSeen struct {
	present replica.Configuration
	former  []formerVoters
}

// formerVoters have decided about entries up to the one that was committed when the group's next
// configuration began.
type formerVoters struct {
	of   replica.Configuration
	upTo uint64
}

func (v *votersSeen) see(status *replica.GroupStatus) {
	c := &status.Configuration
	if c.Index != v.present.Index && len(v.present.Voters) > 0 {
		v.former = append(v.former, formerVoters{v.present, status.Commit})
	}
	v.present = *c
}

// decided returns the configuration whose voters have committed an entry.
func (v *votersSeen) decided(index uint64) *replica.Configuration {
	for i := range v.former {
		if index <= v.former[i].upTo {
			return &v.former[i].of
		}
	}
	return &v.present
}

// checkMajority is invariant 1: what is answered is in the logs of a majority: of the present
// voters, or of those that have decided before there was another configuration.
func (o *oracle) checkMajority(p *process, shard uint16, index uint64) {
	status, err := p.machine.Host().Status(shard)
	if err != nil {
		return
	}
	p.voters[shard].see(&status)
	have, voters := o.copies(shard, &status.Configuration, index)
	if have < 0 {
		return
	}
	if before, _ := o.copies(shard, p.voters[shard].decided(index), index); before >= 0 {
		o.world.fail(1, "%s: shard %d index %d is answered, but in %d of %d logs", p.node.id, shard, index, have, voters)
	}
}

// copies returns how many of the voters have an entry in their logs, if they are no majority of
// them; -1: they are.
func (o *oracle) copies(shard uint16, c *replica.Configuration, index uint64) (have, voters int) {
	term := o.shards[shard].entries[index-1].entry.Term
	for _, list := range [2][]uint64{c.Voters, c.Outgoing} {
		have := 0
		for _, id := range list {
			have += oneIf(o.world.logged(shard, id, index, term))
		}
		if len(list) > 0 && 2*have <= len(list) {
			return have, len(list)
		}
	}
	return -1, 0
}
