package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrNotRunning is returned when a server has no process.
var ErrNotRunning = errors.New("the server does not run")

// Role describes which part of a cluster a server is.
type Role string

// The roles.
const (
	RoleEtcd       Role = "etcd"
	RoleNode       Role = "node"
	RoleRouter     Role = "router"
	RoleStandalone Role = "standalone"
)

// launchesMax bounds the launches of one life when ports are taken meanwhile.
const launchesMax = 5

// Server is one process of a cluster through all its lives. Each life listens on new
// ports, since an old one may meanwhile be the local end of somebody's connection;
// its peers reach it by a Proxy, which stays. Its methods are for one goroutine,
// but for the addresses, Process, Running and Serving.
type Server struct {
	Name    string // unique in the cluster; a node's id unless it is a twin
	Role    Role
	NodeID  string       // of a node
	DataDir string       // "" for a router
	Group   *MemoryGroup // of all lives; nil: memory is not bounded
	// Flags and Env are added to those of the cluster in the lives to come.
	Flags, Env []string

	cluster *Cluster
	zone    string
	front   *Proxy // for its peers; only of a node
	etcd    *Proxy // its way to etcd; nil for etcd itself and a standalone server
	disk    *Disk  // if power can be cut; else nil
	life    struct {
		sync.Mutex
		process   *Process
		suspended bool
		addresses []string // etcd: its port; a node: RPC, HTTP; the others: HTTP, put
	}
}

// Addr is where the current life listens: a node's RPC port, a router's HTTP port,
// etcd's port. "" before the first life.
func (s *Server) Addr() string {
	s.life.Lock()
	defer s.life.Unlock()
	if len(s.life.addresses) == 0 {
		return ""
	}
	return s.life.addresses[0]
}

// HTTPAddr is where a server of the current life answers HTTP; "" for etcd.
func (s *Server) HTTPAddr() string {
	switch s.Role {
	case RoleNode:
		return s.secondAddr()
	case RoleRouter, RoleStandalone:
		return s.Addr()
	case RoleEtcd:
	}
	return ""
}

// PutAddr is where a server for clients takes put lines over TCP; "" for the others.
func (s *Server) PutAddr() string {
	if s.Role == RoleRouter || s.Role == RoleStandalone {
		return s.secondAddr()
	}
	return ""
}

func (s *Server) secondAddr() string {
	s.life.Lock()
	defer s.life.Unlock()
	if len(s.life.addresses) == 0 {
		return ""
	}
	return s.life.addresses[1]
}

// Process returns the process of the current, or last, life; nil before the first.
func (s *Server) Process() *Process {
	s.life.Lock()
	defer s.life.Unlock()
	return s.life.process
}

// Running reports whether the process of the current life is there, suspended or not.
func (s *Server) Running() bool {
	process := s.Process()
	return process != nil && !process.Exited()
}

// Start begins a life and waits until the process listens. It does not wait until it
// serves. On an error nothing is left running; ErrExited: it ended by itself.
func (s *Server) Start(ctx context.Context) error {
	if s.Running() {
		return fmt.Errorf("%s runs already", s.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for launch := 1; ; launch++ {
		if err := s.Launch(); err != nil {
			return err
		}
		err := waitListening(ctx, s.Process(), s.Addr())
		if err == nil {
			return nil
		}
		s.Process().Kill()
		if errors.Is(err, ErrExited) && launch < launchesMax && strings.Contains(s.Process().LogTail(4096), "address already in use") {
			continue
		}
		return fmt.Errorf("start %s: %w\nlast output:\n%s", s.Name, err, s.Process().LogTail(4096))
	}
}

// Launch begins a life and does not wait for anything.
func (s *Server) Launch() error {
	addresses, err := FreeAddresses(2)
	if err != nil {
		return err
	}
	path, args := s.command(addresses)
	if s.disk != nil {
		path, args = s.disk.underBootID(s.bootIDFile(), path, args)
	}
	process, err := StartProcess(ProcessOptions{
		Path: path, Args: args, Env: slices.Concat(s.cluster.options.Env, s.Env), Group: s.Group, LogPath: s.LogPath(),
	})
	if err != nil {
		return err
	}
	s.life.Lock()
	s.life.process, s.life.addresses, s.life.suspended = process, addresses, false
	s.life.Unlock()
	if s.front != nil {
		s.front.SetTarget(addresses[0])
	}
	for _, way := range s.cluster.etcdProxies(s) {
		way.SetTarget(addresses[0])
	}
	return nil
}

// LogPath names the file with the output of all lives.
func (s *Server) LogPath() string { return filepath.Join(s.cluster.options.Dir, s.Name+".log") }

// command is what to run so that it listens on the addresses.
func (s *Server) command(addresses []string) (path string, args []string) {
	o := &s.cluster.options
	if s.Role == RoleEtcd {
		return o.EtcdBinary, []string{"-data-dir", s.DataDir, "-addr", addresses[0], "-no-sync"}
	}
	args = []string{string(s.Role), "--shards", fmt.Sprint(o.Shards)}
	if s.Role != RoleStandalone {
		args = append(args, "--cluster", clusterName, "--etcd-endpoints", s.etcd.Address(), "--replication", fmt.Sprint(o.Replication))
	}
	if s.Role == RoleRouter {
		args = append(args, "--initial-nodes", fmt.Sprint(o.Nodes))
	}
	if s.Role != RoleNode {
		args = append(args, "--http-addr", addresses[0], "--put-addr", addresses[1], "--line-addr", "", "--grpc-addr", "")
	}
	if s.Role == RoleRouter {
		return o.Binary, slices.Concat(args, o.RouterFlags, s.Flags)
	}
	args = append(args, "--data-dir", s.DataDir)
	if s.Role == RoleNode {
		args = append(args, "--node-id", s.NodeID, "--http-addr", addresses[1], "--rpc-addr", addresses[0], "--advertise-addr", s.front.Address())
	}
	if s.zone != "" {
		args = append(args, "--zone", s.zone)
	}
	if o.WALSync != "" {
		args = append(args, "--wal-sync", o.WALSync)
	}
	return o.Binary, slices.Concat(args, o.NodeFlags, s.Flags)
}

// Kill ends the life by SIGKILL.
func (s *Server) Kill() error {
	if !s.Running() {
		return fmt.Errorf("kill %s: %w", s.Name, ErrNotRunning)
	}
	s.Process().Kill()
	return nil
}

// CutPower ends the life, and drops all that it had not synced. The cluster must have
// been made with disks for that.
func (s *Server) CutPower() error {
	if s.disk == nil {
		return fmt.Errorf("cut the power of %s: %w", s.Name, ErrNoDisk)
	}
	if err := s.Kill(); err != nil {
		return err
	}
	return s.DropUnsynced()
}

// DropUnsynced makes a kill a power cut: what the life had not synced is gone, and the
// next one is on another boot of its machine. So several nodes can be cut at once.
func (s *Server) DropUnsynced() error {
	if s.disk == nil {
		return fmt.Errorf("cut the power of %s: %w", s.Name, ErrNoDisk)
	}
	if err := s.disk.Cut(); err != nil {
		return err
	}
	return writeBootID(s.bootIDFile())
}

// FillDisk leaves no room on the server's disk until FreeDisk.
func (s *Server) FillDisk() error {
	if s.disk == nil {
		return fmt.Errorf("fill the disk of %s: %w", s.Name, ErrNoDisk)
	}
	return s.disk.Fill()
}

// FreeDisk ends FillDisk.
func (s *Server) FreeDisk() error { return s.disk.Free() }

// FreezeDisk has the server's disk take nothing until ThawDisk: who writes waits.
func (s *Server) FreezeDisk() error {
	if s.disk == nil {
		return fmt.Errorf("freeze the disk of %s: %w", s.Name, ErrNoDisk)
	}
	return s.disk.Freeze()
}

// ThawDisk ends FreezeDisk.
func (s *Server) ThawDisk() error { return s.disk.Thaw() }

func (s *Server) bootIDFile() string { return filepath.Join(s.cluster.options.Dir, s.Name+".boot-id") }

// Stop ends the life by SIGTERM.
func (s *Server) Stop(timeout time.Duration) error {
	if !s.Running() {
		return fmt.Errorf("stop %s: %w", s.Name, ErrNotRunning)
	}
	if err := s.Process().Terminate(timeout); err != nil {
		return fmt.Errorf("stop %s: %w\nlast output:\n%s", s.Name, err, s.Process().LogTail(4096))
	}
	return nil
}

// Suspend stops the process where it is (SIGSTOP) until Resume (SIGCONT).
func (s *Server) Suspend() error {
	if !s.Running() {
		return fmt.Errorf("suspend %s: %w", s.Name, ErrNotRunning)
	}
	s.setSuspended(true)
	return s.Process().Suspend()
}

func (s *Server) setSuspended(suspended bool) {
	s.life.Lock()
	defer s.life.Unlock()
	s.life.suspended = suspended
}

// Serving reports whether the process runs and is not suspended.
func (s *Server) Serving() bool {
	s.life.Lock()
	defer s.life.Unlock()
	return s.life.process != nil && !s.life.process.Exited() && !s.life.suspended
}

// Resume lets a suspended process go on.
func (s *Server) Resume() error {
	if !s.Running() {
		return fmt.Errorf("resume %s: %w", s.Name, ErrNotRunning)
	}
	if err := s.Process().Resume(); err != nil {
		return err
	}
	s.setSuspended(false)
	return nil
}

// TakeDisk puts the data folder of a server that does not run aside, and returns its
// new place; the next life finds none.
func (s *Server) TakeDisk() (old string, err error) {
	if s.Running() {
		return "", fmt.Errorf("take the disk of %s: it runs", s.Name)
	}
	for number := 1; ; number++ {
		old = fmt.Sprintf("%s.old%d", s.DataDir, number)
		if _, err := os.Lstat(old); errors.Is(err, os.ErrNotExist) {
			return old, os.Rename(s.DataDir, old)
		}
	}
}

// CopyDisk copies the data folder of a server that does not run to a new folder.
func (s *Server) CopyDisk(to string) error {
	if s.Running() {
		return fmt.Errorf("copy the disk of %s: it runs", s.Name)
	}
	return os.CopyFS(to, os.DirFS(s.DataDir))
}

// waitListening asks until something accepts connections at the address.
func waitListening(ctx context.Context, process *Process, address string) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		conn, err := net.DialTimeout("tcp4", address, time.Second)
		if err == nil {
			_ = conn.Close()
			return nil
		}
		select {
		case <-process.Done():
			return fmt.Errorf("%w: %v", ErrExited, process.Err())
		case <-ctx.Done():
			return fmt.Errorf("not listening: %w (last: %w)", ctx.Err(), err)
		case <-ticker.C:
		}
	}
}
