package target

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/etcdstore"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// ClusterOptions say what a cluster is made of. All of its processes share the
// cores: it has the same processors as a server alone.
type ClusterOptions struct {
	Dir                        string
	CPUs                       harness.CPUSet
	Nodes, Replication, Shards int
}

// ClusterNode is a storage node.
type ClusterNode struct {
	*harness.Process
	Name     string
	RPC      string // address
	HTTPAddr string
	Dir      string
}

// Cluster is etcd, some nodes and one router, each a process of its own. They reach
// each other directly over the loopback interface.
type Cluster struct {
	Router *Server // what clients see; its Usage is that of all processes
	Etcd   *harness.Process
	Store  shardmap.Store

	tickmesh TickMesh
	options  ClusterOptions
	etcdAddr string
	nodes    []*ClusterNode
}

const (
	benchCluster = "bench"
	launchesMax  = 3
)

// StartCluster starts all processes and waits until the groups of all shards have
// configured. On an error nothing is left running.
func StartCluster(ctx context.Context, t TickMesh, options ClusterOptions) (*Cluster, error) {
	if t.Etcd == "" {
		return nil, fmt.Errorf("%w: no program for etcd is given", ErrNotInstalled)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	dir := options.Dir
	for launch := 1; ; launch++ {
		options.Dir = filepath.Join(dir, fmt.Sprint("launch", launch))
		if err := os.MkdirAll(options.Dir, 0o755); err != nil {
			return nil, err
		}
		c := &Cluster{tickmesh: t, options: options}
		err := c.start(ctx)
		if err == nil {
			return c, nil
		}
		tail := c.tails()
		c.Kill()
		// Between the choice of a port and its use somebody else may have taken it.
		if launch < launchesMax && strings.Contains(tail, "address already in use") {
			continue
		}
		return nil, fmt.Errorf("start a cluster: %w\nlast output:\n%s", err, tail)
	}
}

func (c *Cluster) start(ctx context.Context) error {
	free, err := harness.FreeAddresses(4)
	if err != nil {
		return err
	}
	c.etcdAddr = free[0]
	c.Etcd, err = c.run("etcd", c.tickmesh.Etcd, "-data-dir", filepath.Join(c.options.Dir, "etcd"), "-addr", c.etcdAddr)
	if err != nil {
		return err
	}
	if c.Store, err = etcdstore.Open(etcdstore.Options{Endpoints: []string{c.etcdAddr}, Cluster: benchCluster}); err != nil {
		return err
	}
	for range c.options.Nodes {
		if _, err := c.AddNode(); err != nil {
			return err
		}
	}
	addresses := Addresses{HTTP: free[1], Put: free[2], Line: free[3]}
	router, err := c.run("router", c.tickmesh.Binary, append(c.flags("router"), "--initial-nodes", fmt.Sprint(c.options.Nodes),
		"--http-addr", addresses.HTTP, "--put-addr", addresses.Put, "--line-addr", addresses.Line, "--grpc-addr", "",
		"--query-series-max", "0")...)
	if err != nil {
		return err
	}
	c.Router = &Server{
		Target: c.tickmesh, Process: router, Addresses: addresses, options: Options{Dir: c.options.Dir},
		client: &http.Client{Timeout: time.Minute}, behind: c.behind,
	}
	if err := harness.WaitReady(ctx, router, "http://"+addresses.HTTP+c.tickmesh.ReadyPath()); err != nil {
		return err
	}
	return c.AwaitGroups(ctx)
}

func (c *Cluster) flags(role string) []string {
	return []string{
		role, "--cluster", benchCluster, "--etcd-endpoints", c.etcdAddr, "--pprof",
		"--shards", fmt.Sprint(c.options.Shards), "--replication", fmt.Sprint(c.options.Replication),
	}
}

func (c *Cluster) run(name, path string, args ...string) (*harness.Process, error) {
	return harness.StartProcess(harness.ProcessOptions{
		Path: path, Args: args, CPUs: c.options.CPUs, LogPath: filepath.Join(c.options.Dir, name+".log"),
	})
}

// AddNode starts a further node: n1, n2 and so on.
func (c *Cluster) AddNode() (*ClusterNode, error) {
	name := fmt.Sprintf("n%d", len(c.nodes)+1)
	n := &ClusterNode{Name: name, Dir: filepath.Join(c.options.Dir, name)}
	if err := c.Restart(n); err != nil {
		return nil, err
	}
	c.nodes = append(c.nodes, n)
	return n, nil
}

// Restart starts a node that does not run, on what its folder has, or an empty one.
func (c *Cluster) Restart(n *ClusterNode) error {
	free, err := harness.FreeAddresses(2)
	if err != nil {
		return err
	}
	n.RPC, n.HTTPAddr = free[0], free[1]
	args := append(c.flags("node"), "--data-dir", n.Dir, "--node-id", n.Name, "--rpc-addr", n.RPC, "--advertise-addr", n.RPC, "--http-addr", n.HTTPAddr)
	if c.tickmesh.WALSync != "" {
		args = append(args, "--wal-sync", c.tickmesh.WALSync)
	}
	n.Process, err = c.run(n.Name, c.tickmesh.Binary, append(args, c.tickmesh.Extra...)...)
	return err
}

// Nodes returns all nodes that were ever started.
func (c *Cluster) Nodes() []*ClusterNode { return c.nodes }

// behind returns the processes behind the router.
func (c *Cluster) behind() []*harness.Process {
	processes := []*harness.Process{c.Etcd}
	for _, n := range c.nodes {
		if !n.Exited() {
			processes = append(processes, n.Process)
		}
	}
	return processes
}

// Await asks the store until the map is as wanted, or ctx ends.
func (c *Cluster) Await(ctx context.Context, what string, wanted func(v shardmap.View) bool) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		v, err := c.Store.Load(ctx)
		if err == nil && v.Map != nil && wanted(v) {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			moving := 0
			if v.Map != nil {
				moving = v.Map.Moving()
			}
			return fmt.Errorf("wait for %s: %w (%d shards move; last answer of the store: %v)", what, ctx.Err(), moving, err)
		}
	}
}

// AwaitGroups waits until every group has its first configuration and none is to
// change.
func (c *Cluster) AwaitGroups(ctx context.Context) error {
	return c.Await(ctx, "configured groups", func(v shardmap.View) bool {
		for _, row := range v.Map.Rows {
			if row.Fresh || row.Intended != nil {
				return false
			}
		}
		return true
	})
}

// DiskBytes is what the nodes' folders take.
func (c *Cluster) DiskBytes() (total int64, err error) {
	for _, n := range c.nodes {
		if _, err := os.Stat(n.Dir); err != nil {
			continue
		}
		bytes, err := harness.DiskBytes(n.Dir)
		if err != nil {
			return 0, err
		}
		total += bytes
	}
	return total, nil
}

// Kill ends all processes by SIGKILL.
func (c *Cluster) Kill() {
	if c.Store != nil {
		_ = c.Store.Close() // nothing is to be kept of it
	}
	if c.Router != nil {
		c.Router.Kill()
	}
	for _, n := range c.nodes {
		n.Kill()
	}
	if c.Etcd != nil {
		c.Etcd.Kill()
	}
}

// tails returns the last output of all processes.
func (c *Cluster) tails() string {
	text := ""
	for _, n := range c.nodes {
		text += "== " + n.Name + "\n" + n.LogTail(1024)
	}
	if c.Router != nil {
		text += "== router\n" + c.Router.LogTail(1024)
	}
	return text
}

// Err joins an error with what the processes have said last.
func (c *Cluster) Err(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\nlast output:\n%s", err, c.tails())
}
