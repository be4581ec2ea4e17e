package commit

import (
	"maps"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// View is what others than the Machine may know of a shard's replica.
type View struct {
	SingleVoter, Leads, Witness, Learner bool
	Changing                             bool // it leads, and the map intends other members
	Era                                  uint32
	Lives                                uint64 // replicas that have ended here
}

// View returns a shard's.
func (m *Machine) View(shard uint16) View { return m.views[shard] }

// AllSingleVoter reports whether every shard has a group here that agrees with itself.
func (m *Machine) AllSingleVoter() bool { return m.single == len(m.views) }

// view updates a shard's View.
func (m *Machine) view(shard uint16) {
	status, err := m.host.Status(shard)
	here, was := err == nil, m.views[shard]
	is := View{
		SingleVoter: here && status.SingleVoter, Leads: here && status.Leads,
		Witness: here && status.Role == shardmap.Witness, Learner: here && status.Role == shardmap.Learner,
		Changing: here && status.Leads && m.rows != nil && m.rows[shard].Intended != nil,
		Era:      status.Era, Lives: was.Lives,
	}
	if is == was {
		return
	}
	m.single += int(oneIf(is.SingleVoter) - oneIf(was.SingleVoter))
	m.views[shard] = is
	m.viewed(shard)
}

func (m *Machine) viewed(shard uint16) { m.out.Viewed = append(m.out.Viewed, shard) }

func (m *Machine) viewAll() {
	for shard := range m.views {
		m.view(uint16(shard))
	}
}

// viewAgain looks at a shard whose state has changed, or was synced.
func (m *Machine) viewAgain(shard uint16) {
	m.view(shard)
	if m.views[shard].Changing {
		m.stepOne(shard) // its configuration may be another one now
	}
}

// Figures are the Machine's own counts, as of the last look at all groups.
type Figures struct {
	Hibernated, Stopped, Quarantined, Unclaimed, Dropping, Unpublished, LagEntries int64
	Recovered                                                                      int64 // groups, since the start
	Crowded                                                                        int64 // writes refused at their shard's queue, since the start

	// Of proposals that waited until a shard was handed over, since the start.
	HandoverWaits   int64 // shards, each time that proposals had to wait
	HandoverWaitMs  int64
	HandoverRefused int64 // proposals that were sent on to another node, or failed
}

// Figures returns the figures.
func (m *Machine) Figures() Figures { return m.figures }

// count updates the figures.
func (m *Machine) count(applied []uint64) {
	f := &m.figures
	*f = Figures{
		Unpublished: f.Unpublished, Recovered: f.Recovered, Crowded: f.Crowded, Quarantined: int64(len(m.quarantined)),
		HandoverWaits: f.HandoverWaits, HandoverWaitMs: f.HandoverWaitMs, HandoverRefused: f.HandoverRefused,
	}
	for _, shard := range m.host.Shards() {
		status, err := m.host.Status(shard)
		if err != nil {
			continue
		}
		f.Hibernated += oneIf(status.Hibernating)
		f.Stopped += oneIf(status.Fault != nil)
		if status.Role != shardmap.Witness && status.Commit > applied[shard] {
			f.LagEntries = max(f.LagEntries, int64(status.Commit-applied[shard]))
		}
	}
	for shard := range m.dropping {
		f.Unclaimed += oneIf(m.unclaimed[shard])
		f.Dropping += oneIf(m.dropping[shard])
	}
	m.out.Counted = true
}

// Count updates the figures; applied is as in Input.
func (m *Machine) Count(applied []uint64) { m.count(applied) }

func oneIf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// GroupConfig is the configuration of a group, as of its leader.
type GroupConfig struct {
	Shard  uint16
	Config []shardmap.Member
	Term   uint64
}

// Unpublished returns the configurations of groups that the map lacks, for all that is known here.
func (m *Machine) Unpublished() (out []GroupConfig) {
	for _, shard := range m.host.Shards() {
		status, err := m.host.Status(shard)
		if err != nil || m.rows == nil {
			continue
		}
		if next := replica.NextStep(m.rows[shard], status); next.Kind == replica.StepPublish {
			out = append(out, GroupConfig{Shard: shard, Config: next.Members, Term: status.Term})
		}
	}
	return out
}

// Transfer starts to hand a shard over to the full voter of another node; an empty name stands
// for the one that has most. Errors: those of replica.Host.
func (m *Machine) Transfer(shard uint16, toNode string) error {
	status, err := m.host.Status(shard)
	if err != nil {
		return err
	}
	if toNode == "" {
		heir, ok := status.Heir(status.Configuration.Members)
		if !ok {
			return replica.ErrArgument
		}
		toNode = heir.Node
	}
	return m.transfer(shard, &status, toNode)
}

// transfer hands a shard over, but not before the outcome of its entry that is under way: the group takes no
// proposals until the heir has all entries, and the next one is not made before.
func (m *Machine) transfer(shard uint16, status *replica.GroupStatus, toNode string) error {
	q := &m.shards[shard]
	if q.underWay > 0 && status.Leads && slices.ContainsFunc(status.Configuration.Members, func(member shardmap.Member) bool {
		return member.Node == toNode && member.Role == shardmap.Full && member.RaftID != status.RaftID
	}) {
		q.heir = toNode
		return nil
	}
	return m.host.Transfer(shard, toNode)
}

// Resign hands over every group that this node leads and another full voter could lead. It
// returns the number of groups that it still leads.
func (m *Machine) Resign() (left int) {
	for _, shard := range m.host.Shards() {
		status, err := m.host.Status(shard)
		if err != nil || !status.Leads || status.SingleVoter {
			continue
		}
		if heir, ok := status.Heir(status.Configuration.Members); ok {
			left++
			_ = m.transfer(shard, &status, heir.Node) // busy: it is under way
		}
	}
	return left
}

// Copies returns all replicas in the data folder, of those too that take no part.
func (m *Machine) Copies() (out []shardmap.Copy) {
	for _, shard := range m.host.Shards() {
		status, err := m.host.Status(shard)
		if err != nil {
			continue
		}
		c := copyOf(&status.Replica, &status.Configuration, replica.Position{Index: status.Last, Term: status.LastTerm})
		c.Leads, c.NewestMs = status.Leads, m.newestMs[shard]
		c.Unclear = status.Installing || status.Fault != nil || m.swaps[shard] != nil
		out = append(out, c)
	}
	for _, shard := range slices.Sorted(maps.Keys(m.quarantined)) {
		r := m.quarantined[shard]
		c := copyOf(&r.state.Replica, &r.state.Configuration, r.last())
		c.Quarantined, c.NewestMs = true, r.newestMs
		out = append(out, c)
	}
	for shard, unclaimed := range m.unclaimed {
		if unclaimed {
			out = append(out, shardmap.Copy{Shard: uint16(shard), Role: shardmap.Full, Quarantined: true, Unclear: true})
		}
	}
	return out
}

func copyOf(r *replica.Replica, c *replica.Configuration, last replica.Position) shardmap.Copy {
	return shardmap.Copy{
		Shard: r.Shard, RaftID: r.RaftID, Era: r.Era, Role: r.Role, Term: last.Term, Index: last.Index,
		ConfigIndex: c.Index, Members: slices.Clone(c.Members), Leaving: slices.Clone(c.Leaving), Outgoing: slices.Clone(c.Outgoing),
	}
}

// last returns the last entry that the replica has, as Host.Restore will find it.
func (r *quarantined) last() replica.Position {
	if swap := &r.state.Installing; swap.Index > 0 && r.summary.Applied == swap.Index {
		return swap.Position
	}
	at := r.state.Truncated
	if r.summary.Last > at.Index && len(r.summary.Runs) > 0 {
		at = replica.Position{Index: r.summary.Last, Term: r.summary.Runs[len(r.summary.Runs)-1].Term}
	}
	if r.summary.Applied > at.Index { // the log lost what the engine has
		at.Index = r.summary.Applied
	}
	return at
}
