package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap/etcdstore"
)

const (
	clusterName = "e2e"
	// Tester is the name by which the network knows the test itself.
	Tester      = "tester"
	stopTimeout = time.Minute
)

// ClusterOptions say what a cluster is made of.
type ClusterOptions struct {
	Binary      string // tickmesh, from Build
	EtcdBinary  string // from BuildEtcd
	Dir         string // for data folders and logs; made if missing
	Nodes       int    // n1, n2, …
	Routers     int    // r1, r2, …
	Shards      int
	Replication int
	// Standalone makes one server of all roles, s1, the whole cluster: there are no nodes, no
	// routers, and etcd does not run.
	Standalone  bool
	WALSync     string   // "" leaves the default
	NodeFlags   []string // further flags, of a standalone server too
	RouterFlags []string
	Env         []string
	// DiskBytes is the size of each node's own disk, whose power can be cut; 0: none.
	DiskBytes int64
	// MemoryBytes puts each node and router into a control group of its own with that much
	// memory (ErrNoMemoryGroup: there can be none here); 0: no.
	MemoryBytes int64
}

// Cluster is etcd, nodes and routers as child processes, each of which reaches the
// others through proxies of one Network, which knows them by Server.Name; or it is one
// standalone server.
type Cluster struct {
	Network *Network
	Etcd    *Server

	options ClusterOptions
	tester  *Proxy // the test's way to etcd
	mu      struct {
		sync.Mutex
		servers []*Server // all but etcd, in the order in which they came
	}
}

// BuildEtcd compiles the program that runs etcd into dir and returns its path.
func BuildEtcd(ctx context.Context, dir string) (string, error) {
	return BuildProgram(ctx, filepath.Join(dir, "etcd"), "./e2e/cmd/etcd")
}

// StartCluster starts all processes and waits until they listen; see WaitReady. On an
// error nothing is left running; ErrNoDisk: there can be no disks here.
func StartCluster(ctx context.Context, options ClusterOptions) (*Cluster, error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, err
	}
	options.Dir = dir
	if err := os.MkdirAll(options.Dir, 0o755); err != nil {
		return nil, err
	}
	c := &Cluster{options: options}
	c.Network = NewNetwork(c.owners)
	c.Etcd = &Server{Name: string(RoleEtcd), Role: RoleEtcd, DataDir: filepath.Join(options.Dir, "etcd"), cluster: c}
	if c.tester, err = c.Network.Listen(Tester, c.Etcd.Name); err != nil {
		return nil, err
	}
	if err := c.startAll(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) startAll(ctx context.Context) error {
	if c.options.Standalone {
		return c.addWithData(ctx, &Server{Name: "s1", Role: RoleStandalone})
	}
	if err := c.Etcd.Start(ctx); err != nil {
		return err
	}
	for i := range c.options.Nodes {
		if _, err := c.AddNode(ctx, fmt.Sprintf("n%d", i+1)); err != nil {
			return err
		}
	}
	for i := range c.options.Routers {
		router := &Server{Name: fmt.Sprintf("r%d", i+1), Role: RoleRouter}
		if err := c.add(router); err != nil {
			return err
		}
		if err := router.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// AddNode starts a further node.
func (c *Cluster) AddNode(ctx context.Context, id string) (*Server, error) {
	node := &Server{Name: id, Role: RoleNode, NodeID: id}
	return node, c.addWithData(ctx, node)
}

// addWithData starts a server that has a data folder.
func (c *Cluster) addWithData(ctx context.Context, s *Server) error {
	s.DataDir = filepath.Join(c.options.Dir, s.Name)
	if err := c.add(s); err != nil {
		return err
	}
	if c.options.DiskBytes > 0 {
		if err := s.addDisk(c.options.DiskBytes); err != nil {
			return err
		}
	}
	return s.Start(ctx)
}

// addDisk puts the node's data on a disk of its own.
func (s *Server) addDisk(sizeBytes int64) (err error) {
	if s.disk, err = NewDisk(s.DataDir+".disk", sizeBytes); err != nil {
		s.disk = nil
		return err
	}
	s.DataDir = filepath.Join(s.disk.Dir(), "data")
	return writeBootID(s.bootIDFile())
}

// Twin prepares a server that claims to be a node, with a data folder of its own.
func (c *Cluster) Twin(of *Server, name, dataDir string) (*Server, error) {
	twin := &Server{Name: name, Role: RoleNode, NodeID: of.NodeID, DataDir: dataDir}
	return twin, c.add(twin)
}

// add sets up for a server its proxies and its control group.
func (c *Cluster) add(s *Server) (err error) {
	s.cluster = c
	if c.options.MemoryBytes > 0 {
		if s.Group, err = NewMemoryGroup(c.options.MemoryBytes); err != nil {
			return err
		}
	}
	if s.Role != RoleStandalone {
		if s.etcd, err = c.Network.Listen(s.Name, c.Etcd.Name); err != nil {
			return err
		}
		s.etcd.SetTarget(c.Etcd.Addr())
	}
	if s.Role == RoleNode {
		if s.front, err = c.Network.Listen("", s.Name); err != nil {
			s.etcd.Close()
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.servers = append(c.mu.servers, s)
	return nil
}

// Servers returns the servers of a role, in the order in which they came.
func (c *Cluster) Servers(role Role) []*Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*Server
	for _, s := range c.mu.servers {
		if s.Role == role {
			list = append(list, s)
		}
	}
	return list
}

// Server returns a server by its name; nil: there is none.
func (c *Cluster) Server(name string) *Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.mu.servers, func(s *Server) bool { return s.Name == name }); i >= 0 {
		return c.mu.servers[i]
	}
	return nil
}

// Name is the cluster's name, as its processes know it.
func (c *Cluster) Name() string { return clusterName }

// owners names the processes for the network.
func (c *Cluster) owners() map[int]string {
	c.mu.Lock()
	servers := slices.Clone(c.mu.servers)
	c.mu.Unlock()
	names := map[int]string{os.Getpid(): Tester}
	for _, s := range servers {
		if s.Running() {
			names[s.Process().PID()] = s.Name
		}
	}
	return names
}

// etcdProxies returns all ways to etcd if s is etcd, else none.
func (c *Cluster) etcdProxies(s *Server) []*Proxy {
	if s.Role != RoleEtcd {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	proxies := []*Proxy{c.tester}
	for _, other := range c.mu.servers {
		proxies = append(proxies, other.etcd)
	}
	return proxies
}

// OpenStore opens the placement store for the test.
func (c *Cluster) OpenStore() (*etcdstore.Store, error) {
	return etcdstore.Open(etcdstore.Options{Endpoints: []string{c.tester.Address()}, Cluster: clusterName})
}

// WaitReady waits until every server for clients that runs is ready to serve.
func (c *Cluster) WaitReady(ctx context.Context) error {
	for _, router := range append(c.Servers(RoleRouter), c.Servers(RoleStandalone)...) {
		if !router.Running() {
			continue
		}
		if err := WaitReady(ctx, router.Process(), "http://"+router.Addr()+"/readyz"); err != nil {
			return fmt.Errorf("%s: %w\n%s", router.Name, err, c.Describe())
		}
	}
	return nil
}

// Stop ends all processes cleanly: routers first, etcd last.
func (c *Cluster) Stop() error {
	var problems []error
	for _, role := range []Role{RoleStandalone, RoleRouter, RoleNode} {
		for _, s := range c.Servers(role) {
			if s.Running() {
				problems = append(problems, s.Stop(stopTimeout))
			}
		}
	}
	if c.Etcd.Running() {
		problems = append(problems, c.Etcd.Stop(stopTimeout))
	}
	return errors.Join(problems...)
}

// Close kills what still runs, and ends the proxies.
func (c *Cluster) Close() {
	c.mu.Lock()
	servers := append(slices.Clone(c.mu.servers), c.Etcd)
	c.mu.Unlock()
	for _, s := range servers {
		if s.Running() {
			s.Process().Kill()
		}
	}
	for _, s := range servers {
		for _, proxy := range []*Proxy{s.front, s.etcd} {
			if proxy != nil {
				proxy.Close()
			}
		}
		if s.disk != nil {
			_ = s.disk.Close() // it may have been closed
		}
		if s.Group != nil {
			_ = s.Group.Close()
		}
	}
	c.tester.Close()
}

// Describe helps to find out what happened: the last output of all processes.
func (c *Cluster) Describe() string {
	c.mu.Lock()
	servers := append(slices.Clone(c.mu.servers), c.Etcd)
	c.mu.Unlock()
	var text strings.Builder
	for _, s := range servers {
		process := s.Process()
		if process == nil {
			continue
		}
		state := "runs"
		if process.Exited() {
			state = fmt.Sprintf("has ended: %v", process.Err())
		}
		fmt.Fprintf(&text, "== %s %s; output in %s, its end:\n%s\n", s.Name, state, s.LogPath(), process.LogTail(2048))
	}
	return text.String()
}
