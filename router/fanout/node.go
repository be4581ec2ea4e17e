package fanout

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/deadline"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/transport"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// node is the connection to one data folder of a node.
type node struct {
	id          string
	incarnation string
	address     string
	client      nodev1.NodeServiceClient // for writes and probes, which never wait behind reads
	lanes       *lanes
	reads       nodev1.NodeServiceClient // by lanes, for all other calls
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
	open := func(more ...grpc.DialOption) (*grpc.ClientConn, error) {
		return grpc.NewClient(target(info.RPCAddress), append(slices.Clone(options), more...)...)
	}
	conn, err := open()
	if err != nil {
		return nil, err
	}
	all := newLanes(conn, func() (*grpc.ClientConn, error) { return open(grpc.WithIdleTimeout(laneIdleMax)) })
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{
		id: info.ID, incarnation: info.Incarnation, address: info.RPCAddress,
		client: nodev1.NewNodeServiceClient(conn), lanes: all, reads: nodev1.NewNodeServiceClient(ofOwner{all}), life: ctx, cancel: cancel,
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

// ofOwner makes calls for the user of the request that their context is of, so that nodes are fair to users. Addresses are
// no users: those of a proxy in front would make one owner of all databases.
type ofOwner struct{ grpc.ClientConnInterface }

func (c ofOwner) context(ctx context.Context) context.Context {
	owner := processor.Of(ctx).Owner()
	if _, err := netip.ParseAddr(owner); err == nil {
		return ctx
	}
	return handshake.WithOwner(ctx, owner)
}

// Invoke implements grpc.ClientConnInterface.
func (c ofOwner) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(c.context(ctx), method, request, reply, options...)
}

// NewStream implements grpc.ClientConnInterface.
func (c ofOwner) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConnInterface.NewStream(c.context(ctx), desc, method, options...)
}

// target names an address for gRPC. Its default resolver would keep what a name meant
// when it was first asked for; the dialer asks each time.
func target(address string) string { return "passthrough:///" + address }

func (n *node) close() {
	n.cancel()
	n.leaders.close()
	_ = n.lanes.close() // it fails only where it is closed already
	n.run.Wait()
}
