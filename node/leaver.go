package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Inquiry asks other nodes about their replicas.
type Inquiry interface {
	// Group asks a node for its replica of a shard. An error says that it is not known.
	Group(ctx context.Context, node string, shard uint16) (GroupView, error)
}

// GroupView is what another node says of its replica of a shard.
type GroupView struct {
	Era     uint32
	Index   uint64   // of the configuration
	RaftIDs []uint64 // of all replicas in it, those that leave included
	Members []shardmap.Member
}

// question is a replica that the map does not name: may it end?
type question struct {
	shard   uint16
	raftID  uint64
	era     uint32
	index   uint64            // of its configuration
	members []shardmap.Member // who may know
	relic   bool              // it takes no part
	place   shardmap.Member   // this node and its data folder, without role and raft id
}

// gone says whether a group that another replica describes goes on without this one.
func (q *question) gone(view *GroupView) bool {
	if view.Era != q.era { // one that was made for a later era and knows no group proves nothing
		return view.Era > q.era && len(view.RaftIDs) > 0
	}
	// A majority without the relic has agreed on a configuration since: the folder has this
	// incarnation only since the relic is one. That somebody leads would prove nothing, as
	// a leader that has lost its majority says so for a while.
	if q.relic && slices.ContainsFunc(view.Members, q.place.SamePlace) {
		return true
	}
	for _, id := range view.RaftIDs {
		if id == q.raftID {
			return false
		}
	}
	return view.Index > q.index
}

// leaver asks other members before a replica ends. Questions come again while they have
// no answer.
type leaver struct{ errands[question] }

const (
	questionsMax   = 64
	questionsAsked = 4 // at a time: a member that does not answer must not hold up the others
	questionWait   = 2 * time.Second
)

func (v *leaver) init() {
	v.errands.init(questionsMax, func(q *question) uint16 { return q.shard })
}

// askMembers asks one question after the other until the node closes.
func (n *Node) askMembers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-n.leaver.wants:
			if n.hasLeft(ctx, &q) {
				_ = n.loop.queue.do(func() { n.loop.left(&q) }) // not run, it is asked again
			}
			n.leaver.done(q.shard)
		}
	}
}

func (n *Node) hasLeft(ctx context.Context, q *question) bool {
	if n.options.Inquiry == nil {
		return false
	}
	for i := range q.members {
		if q.members[i].Node == n.loop.node {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, questionWait)
		view, err := n.options.Inquiry.Group(bounded, q.members[i].Node, q.shard)
		cancel()
		if err == nil && q.gone(&view) {
			return true
		}
	}
	return false
}

// errSyncing says that a configuration is not durable here yet.
var errSyncing = fmt.Errorf("%w: the group's configuration is being synced", series.ErrUnavailable)

// GroupView tells another node about the replica of a shard here. Errors: those of
// replica.Host.Status, and series.ErrUnavailable.
func (n *Node) GroupView(shard uint16) (view GroupView, err error) {
	failed := n.loop.queue.do(func() {
		status, problem := n.loop.host.Status(shard)
		if err = problem; err != nil {
			return
		}
		if status.Syncing { // the other one may drop its data on the ground of this
			err = errSyncing
			return
		}
		c := &status.Configuration
		view = GroupView{Era: status.Era, Index: c.Index, Members: slices.Clone(c.Members)}
		for _, list := range [4][]uint64{c.Voters, c.Outgoing, c.Learners, c.LearnersNext} {
			view.RaftIDs = append(view.RaftIDs, list...)
		}
	})
	if failed != nil {
		return view, failed
	}
	return view, err
}
