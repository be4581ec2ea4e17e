package member

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/rpc"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// groupClient asks other nodes about groups over the connections to them.
type groupClient struct{ peers *rpc.Peers }

// Group implements transfer.GroupClient.
func (q groupClient) Group(ctx context.Context, name string, shard uint16) (commit.GroupView, error) {
	conn := q.peers.Conn(name)
	if conn == nil {
		return commit.GroupView{}, fmt.Errorf("%w: node %s is not known", series.ErrUnavailable, name)
	}
	report, err := nodev1.NewNodeServiceClient(conn).Report(ctx, &nodev1.ReportRequest{WithoutMap: true})
	if err != nil {
		return commit.GroupView{}, err
	}
	for _, g := range report.GetGroups() {
		if g.GetShard() != uint32(shard) {
			continue
		}
		if g.GetJoint() {
			return commit.GroupView{}, fmt.Errorf("%w: the group of shard %d is between two configurations", series.ErrUnavailable, shard)
		}
		view := commit.GroupView{Era: g.GetEra(), Index: g.GetMembersIndex(), Members: wire.GroupOf(g).Members}
		for _, m := range g.GetMembers() {
			view.RaftIDs = append(view.RaftIDs, m.GetRaftId())
		}
		return view, nil
	}
	return commit.GroupView{}, fmt.Errorf("%w: node %s has no replica of shard %d", series.ErrUnavailable, name, shard)
}

// bootID is different after each start of the machine; empty: it is not known.
func bootID() string {
	const bytesMax = 64
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(text) > bytesMax {
		return ""
	}
	return strings.TrimSpace(string(text))
}
