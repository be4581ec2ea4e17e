package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// historyRun is one History under way.
type historyRun struct {
	gather
	since []scan.Mark // sorted by shard

	collecting sync.Mutex
	changes    []scan.Change // guarded by collecting
}

// History implements scan.Historian, with one call for each node. Of the shards of nodes
// of older versions nothing is known.
func (s *Source) History(ctx context.Context, shards []uint16, since []scan.Mark) ([]scan.Change, error) {
	r := &historyRun{since: since}
	r.cluster, r.source, r.ask = s.cluster, s, r.askNode
	if err := r.run(ctx, shards); err != nil {
		return nil, err
	}
	slices.SortFunc(r.changes, func(a, b scan.Change) int { return cmp.Compare(a.Shard, b.Shard) })
	return r.changes, nil
}

func (r *historyRun) askNode(ctx context.Context, o *group) error {
	request := &nodev1.HistoryRequest{}
	for _, read := range o.reads {
		mark := &nodev1.ShardMark{Shard: uint32(read.shard)}
		if at, found := slices.BinarySearchFunc(r.since, read.shard, func(m scan.Mark, shard uint16) int { return cmp.Compare(m.Shard, shard) }); found {
			mark.Run, mark.Index = r.since[at].Run, r.since[at].Index
		}
		request.Since = append(request.Since, mark)
	}
	m, err := await(o.watchdog, func() (*nodev1.HistoryResponse, error) { return o.node.reads.History(ctx, request) })
	if errors.Is(err, wire.ErrVersion) { // it does not know the call
		for _, read := range o.reads {
			r.add(scan.Change{Mark: scan.Mark{Shard: read.shard}, LeastMs: scan.ChangedAll})
			r.end(o, read, nil)
		}
		return nil
	}
	if err != nil {
		return err
	}
	changes := m.GetChanges()
	for _, e := range m.GetEnds() {
		read, shardErr, err := o.findEnd(e)
		if err != nil {
			return err
		}
		if shardErr == nil {
			if len(changes) == 0 || changes[0].GetMark().GetShard() != e.GetShard() {
				return fmt.Errorf("%w: no history of shard %d", wire.ErrInternal, read.shard)
			}
			mark := changes[0].GetMark()
			r.add(scan.Change{Mark: scan.Mark{Shard: read.shard, Run: mark.GetRun(), Index: mark.GetIndex()}, LeastMs: changes[0].GetLeastMs()})
			changes = changes[1:]
		}
		r.end(o, read, shardErr)
	}
	return nil
}

func (r *historyRun) add(c scan.Change) {
	r.collecting.Lock()
	defer r.collecting.Unlock()
	r.changes = append(r.changes, c)
}
