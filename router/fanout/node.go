package fanout

import (
	"context"
	"sync"

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/deadline"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/transport"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// node is the connection to one data folder of a node.
type node struct {
	id          string
	incarnation string
	address     string
	conn        *grpc.ClientConn
	client      nodev1.NodeServiceClient
	links       []*link

	life    context.Context // until the connection is given up
	cancel  context.CancelFunc
	run     sync.WaitGroup
	probes  singleflight.Group
	leaders leaderProbe

	presence presence
	reports  *deadline.Adaptive // to leader probes
	attempts *deadline.Adaptive // of writes, before another node is asked
}

func (c *Cluster) connect(info shardmap.NodeInfo) (*node, error) {
	options := append(transport.DialOptions(c.options.Names.Credentials(c.options.Credentials, info.ID)), handshake.DialOptions(c.options.Self, info.ID, info.Incarnation)...)
	conn, err := grpc.NewClient(target(info.RPCAddress), options...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{
		id: info.ID, incarnation: info.Incarnation, address: info.RPCAddress,
		conn: conn, client: nodev1.NewNodeServiceClient(conn), life: ctx, cancel: cancel,
	}
	l := &c.options.Limits
	n.presence.limit = deadline.New(l.ProbeTimeout, presenceFactorMax*l.ProbeTimeout)
	n.reports = deadline.New(l.ProbeTimeout, presenceFactorMax*l.ProbeTimeout)
	n.attempts = deadline.New(l.AttemptTimeout, l.WriteTimeout)
	for range l.Streams {
		l := newLink(n, c)
		n.links = append(n.links, l)
		n.run.Go(func() { l.run(ctx) })
	}
	return n, nil
}

// target names an address for gRPC. Its default resolver would keep what a name meant
// when it was first asked for; the dialer asks each time.
func target(address string) string { return "passthrough:///" + address }

func (n *node) close() {
	n.cancel()
	n.leaders.close()
	_ = n.conn.Close() // it fails only when it is closed already
	n.run.Wait()
}
