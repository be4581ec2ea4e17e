package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/memory"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/agent"
	"github.com/tickmesh/tickmesh/node/rpc"
	"github.com/tickmesh/tickmesh/node/service"
)

// Options say how a storage node takes part in a cluster.
type Options struct {
	ID, Zone, Cluster      string
	RPCAddr, AdvertiseAddr string
	Store                  shardmap.Store
	Node                   node.Options // without what comes from the cluster
	MoveRate               uint64       // bytes per second, to others and from them; 0: no bound
	Peers                  settings.PeerCredentials
	Logger                 *slog.Logger
	Memory                 *memory.Plan // nil: defaults bound it
	Together               bool         // all nodes of the cluster end with this one: nobody takes over
	Unfit                  func(error)  // called when the data folder can never take part; may be nil
}

// Member is a storage node of a cluster, with all that joins it to the others.
type Member struct {
	options  Options
	logger   *slog.Logger
	node     *node.Node
	service  *service.Service
	peers    *rpc.Peers
	agent    *agent.Agent
	server   *grpc.Server
	budgets  map[string]*budget.Pool // of what callers hold
	listener *transport.Listener
	process  uint64
	started  time.Time
	running  sync.WaitGroup
	cancel   context.CancelFunc
	storeErr atomic.Pointer[error] // why the placement store cannot be relied on
}

// Start opens the data folder and joins the cluster. Close leaves it.
func Start(ctx context.Context, o Options) (m *Member, err error) {
	m = &Member{options: o, logger: o.Logger.With("node", o.ID), process: rand.Uint64(), started: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close(ctx))
			m = nil
		}
	}()
	listener, err := net.Listen("tcp", o.RPCAddr)
	if err != nil {
		return m, err
	}
	m.listener = transport.NewListener(netutil.LimitListener(listener, rpcConnectionsMax))
	m.peers = rpc.NewPeers(rpc.PeersOptions{
		Self: m.hello, Credentials: o.Peers.Client, Names: o.Peers.Names, Logger: m.logger,
		OutboxBytesMax: o.Memory.NodeBound(memory.Outbox, memory.Unlimited),
		Up:             func(name string) { m.node.PeerUp(name) }, Down: func(name string) { m.node.PeerDown(name) },
	})
	o.Memory.Track(memory.Outbox, m.peers.QueueBytes)
	options := o.Node
	options.NodeID, options.Peers, options.Files, options.Logger = o.ID, m.peers, shardFiles{m.peers, o.MoveRate, rpc.NewPace(o.MoveRate)}, m.logger
	options.GroupClient, options.Copies, options.BootID = groupClient{m.peers}, shardCopies{m.peers}, bootID()
	if m.node, err = node.Open(options); err != nil {
		return m, DataDirError(options.DataDir, err)
	}
	m.service = service.New(service.Options{
		Node: m.node, Hello: m.hello, Map: m.shardMap,
		Disk: func() (uint64, uint64) { return process.DiskUsage(options.DataDir) }, Version: process.Version, Now: time.Now, Logger: m.logger,
		MoveBytesPerSecond: o.MoveRate,
	})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.cancel = cancel
	m.agent, err = agent.Start(ctx, agent.Options{
		Store: o.Store, Node: m.node, DataDir: options.DataDir, Cluster: o.Cluster, Info: m.info, Seen: m.seen, Unfit: o.Unfit, Logger: m.logger,
	})
	if err != nil {
		return m, err
	}
	m.serve()
	m.running.Go(func() { m.agent.Run(running) })
	return m, nil
}

// rpcConnectionsMax bounds the connections of other processes to a node: a few of each node and
// router of the largest cluster.
const rpcConnectionsMax = 4096

func (m *Member) serve() {
	o := m.rpcOptions()
	o.Names, o.Logger, o.SendPace = m.options.Peers.Names, m.logger, rpc.NewPace(m.options.MoveRate)
	internal := rpc.NewServer(m.service, o)
	m.server = grpc.NewServer(append(transport.ServerOptions(m.options.Peers.Server), internal.GRPCOptions()...)...)
	internal.Register(m.server)
	m.budgets = internal.Pools()
	for name, pool := range m.budgets {
		share := memory.Messages
		if name == rpc.PoolScans {
			share = memory.Scans
		}
		m.options.Memory.Track(share, func() int64 { return pool.Stats().Used })
	}
	m.logger.Info("listening", "port", "rpc", "address", m.listener.Addr().String(), "advertised", m.address())
	m.running.Go(func() {
		if err := m.server.Serve(m.listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			m.logger.Error("other nodes and routers are served no more", "error", err)
		}
	})
}

func (m *Member) shardMap() *shardmap.Map {
	if m.agent == nil {
		return nil
	}
	return m.agent.Map()
}

func (m *Member) hello() handshake.Hello {
	id, incarnation := "", ""
	if known := m.shardMap(); known != nil {
		id = known.ID
	}
	if m.node != nil {
		incarnation = m.node.Incarnation()
	}
	h := handshake.New(m.options.Cluster, id, m.options.ID, incarnation, m.process)
	h.Entries = handshake.Entries{Forgets: handshake.Understood, Thins: handshake.Understood, Hours: handshake.Understood, Exemplars: handshake.Understood}
	if m.node != nil {
		known := m.node.Entries()
		h.Entries = handshake.Entries{Forgets: handshake.Knowledge(known.Forgets), Thins: handshake.Knowledge(known.Thins), Hours: handshake.Knowledge(known.Hours), Exemplars: handshake.Knowledge(known.Exemplars)}
	}
	return h
}

// address is what others are told to connect to.
func (m *Member) address() string {
	if m.options.AdvertiseAddr != "" {
		return m.options.AdvertiseAddr
	}
	host, port, err := net.SplitHostPort(m.listener.Addr().String())
	if err != nil {
		return m.listener.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		return m.listener.Addr().String()
	}
	if name, err := os.Hostname(); err == nil {
		host = name
	}
	return net.JoinHostPort(host, port)
}

func (m *Member) info() shardmap.NodeInfo {
	capacity, used := process.DiskUsage(m.options.Node.DataDir)
	return shardmap.NodeInfo{
		ID: m.options.ID, Incarnation: m.node.Incarnation(), Former: m.node.FormerIncarnations(), RPCAddress: m.address(), Zone: m.options.Zone,
		CapacityBytes: int64(capacity), UsedBytes: int64(used), StartedMs: m.started.UnixMilli(), Version: process.Version,
	}
}

// seen notes what the placement store has of the other nodes.
func (m *Member) seen(view shardmap.View) {
	m.storeErr.Store(&view.Err)
	m.service.SetIncarnations(view.Incarnations)
	var targets []rpc.Target
	for id, info := range view.Nodes {
		if id != m.options.ID {
			targets = append(targets, rpc.Target{Node: id, Incarnation: info.Incarnation, Address: info.RPCAddress})
		}
	}
	// A node whose lease has ended may live all the same: it has lost the store, not us.
	if len(targets) > 0 || view.Err == nil {
		if err := m.peers.Set(targets); err != nil {
			m.logger.Warn("the addresses of some nodes cannot be used", "error", err)
		}
	}
}

// StoreErr reports why the placement store cannot be relied on; nil: it can.
func (m *Member) StoreErr() error {
	if err := m.storeErr.Load(); err != nil {
		return *err
	}
	return nil
}

// Ready returns why the process cannot serve, if so: it takes no writes, or has not caught
// up since it was started. Whether the placement store answers does not count, nor how far
// the node falls behind others later, which the leaders of its shards tell.
func (m *Member) Ready() error {
	if err := m.node.Health(); err != nil {
		return err
	}
	if behind := m.node.Starting(); len(behind) > 0 {
		return fmt.Errorf("%d shards have not caught up with their leaders since the start, the first is %d", len(behind), behind[0])
	}
	return nil
}

// Details tell what a person should know, for /readyz.
func (m *Member) Details() []string {
	if err := m.StoreErr(); err != nil {
		return []string{"placement store: " + err.Error() + "; the node goes on with its shard map" + process.StoreAdvice(err)}
	}
	return nil
}

// resignWait bounds how long a node that stops waits for others to lead its groups.
const resignWait = 3 * time.Second

// Close hands over what the node leads, leaves the cluster and closes the data folder.
func (m *Member) Close(context.Context) error {
	if m.server != nil && !m.options.Together {
		for deadline := time.Now().Add(resignWait); m.node.Resign() > 0 && time.Now().Before(deadline); {
			time.Sleep(100 * time.Millisecond)
		}
	}
	if m.cancel != nil {
		m.cancel()
	}
	if m.server != nil {
		m.listener.CloseConnections()
		m.server.Stop()
	} else if m.listener != nil {
		m.listener.Close()
	}
	m.running.Wait()
	var problems []error
	if m.peers != nil {
		m.peers.Close()
	}
	if m.service != nil {
		problems = append(problems, m.service.Close())
	}
	if m.node != nil {
		problems = append(problems, m.node.Close())
	}
	return errors.Join(problems...)
}

// shardFiles fetches files over the connections to other nodes.
type shardFiles struct {
	peers *rpc.Peers
	rate  uint64 // bytes per second, told to senders
	pace  *rpc.Pace
}

func (f shardFiles) Fetch(ctx context.Context, from string, shard uint16) (io.ReadCloser, error) {
	conn := f.peers.Conn(from)
	if conn == nil {
		return nil, fmt.Errorf("node %s is not known", from)
	}
	download, err := rpc.OpenDownload(ctx, conn, rpc.DownloadRequest{Shard: shard, BytesPerSecond: f.rate, Pace: f.pace})
	if err != nil {
		return nil, err
	}
	return closableDownload{download}, nil
}

type closableDownload struct{ *rpc.Download }

func (d closableDownload) Close() error {
	d.Download.Close()
	return nil
}

// Node returns the storage node.
func (m *Member) Node() *node.Node { return m.node }

// Budgets returns the bounds of what callers hold.
func (m *Member) Budgets() map[string]*budget.Pool { return m.budgets }
