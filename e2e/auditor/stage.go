package auditor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// Bounds of waiting. A machine that is busy with other things needs much longer than
// the cluster itself; a scenario that passes never waits for these.
const (
	startBound    = 90 * time.Second
	progressBound = 60 * time.Second
	checkBound    = 90 * time.Second
	moveBound     = 3 * time.Minute
	settlePause   = 50 * time.Millisecond
)

// faultLeast is how long a fault lasts at least: longer than an election needs, so
// that it is not over before anybody has noticed.
const faultLeast = 1500 * time.Millisecond

// StageOptions say what a scenario plays on.
type StageOptions struct {
	Binary, EtcdBinary string
	Dir                string
	Nodes, Routers     int
	Replication        int
	WALSync            string // "" leaves the default
	Disks              bool   // that the power can be cut of
	GRPC               bool   // the one router serves the command line
	Seed               uint64
	// Long plays more rounds, and pauses as long as the faults of real life.
	Long bool
	Log  func(format string, args ...any)
}

// Stage is a cluster of processes with an audit on it.
type Stage struct {
	*harness.Cluster
	Audit *Audit

	options StageOptions
	store   shardmap.Store
	random  *rand.Rand
	grpc    string // where the router serves the command line; empty: nowhere
}

// smallFlags make the engine checkpoint, sort pages, switch files and compact all the
// time, so that faults meet these.
func smallFlags() []string {
	return []string{
		"--checkpoint-bytes", "256KiB", "--flush-interval", "300ms", "--wal-file-bytes", "128KiB", "--page-file-bytes", "64KiB",
		"--digest-interval", "2s",
	}
}

const (
	stageShards = 8
	// replaceAfter is shorter than in real life, and longer than any fault after
	// which a node comes back.
	replaceAfter = "2m"
	// diskBytes hold what a scenario writes many times over.
	diskBytes = 1 << 30
)

// NewStage starts a cluster and the audit, and waits until all clients are served.
func NewStage(ctx context.Context, options StageOptions) (*Stage, error) {
	of := harness.ClusterOptions{
		Binary: options.Binary, EtcdBinary: options.EtcdBinary, Dir: options.Dir, Nodes: options.Nodes, Routers: options.Routers,
		Shards: stageShards, Replication: options.Replication, WALSync: options.WALSync,
		NodeFlags: smallFlags(), RouterFlags: []string{"--replace-after", replaceAfter},
	}
	if options.Disks {
		of.DiskBytes = diskBytes
	}
	grpc := ""
	if options.GRPC {
		addresses, err := harness.FreeAddresses(1)
		if err != nil {
			return nil, err
		}
		grpc = addresses[0]
		of.RouterFlags = append(of.RouterFlags, "--grpc-addr", grpc)
	}
	cluster, err := harness.StartCluster(ctx, of)
	if err != nil {
		return nil, err
	}
	s := &Stage{Cluster: cluster, options: options, random: rand.New(rand.NewPCG(options.Seed, 0)), grpc: grpc}
	if err := s.open(ctx); err != nil {
		err = fmt.Errorf("%w\n%s", err, cluster.Describe())
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stage) open(ctx context.Context) error {
	store, err := s.OpenStore()
	if err != nil {
		return err
	}
	s.store = store
	bounded, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if err := s.WaitReady(bounded); err != nil {
		return err
	}
	config := DefaultConfig()
	config.Seed = s.options.Seed
	if s.Audit, err = Start(ctx, config, s); err != nil {
		return err
	}
	return s.Audit.Progress(bounded)
}

// Close ends everything at once.
func (s *Stage) Close() {
	if s.Audit != nil {
		_, _ = s.Audit.Stop()
	}
	if s.store != nil {
		_ = s.store.Close()
	}
	s.Cluster.Close()
}

// Finish stops the clients, then all processes cleanly.
func (s *Stage) Finish() (Report, error) {
	report, err := s.Audit.Stop()
	return report, errors.Join(err, s.store.Close(), s.Cluster.Stop())
}

// Routers implements Target.
func (s *Stage) Routers() []string {
	var addresses []string
	for _, router := range s.Servers(harness.RoleRouter) {
		if router.Serving() {
			addresses = append(addresses, router.Addr())
		}
	}
	return addresses
}

// nodes returns the nodes that serve.
func (s *Stage) nodes() []Node {
	var nodes []Node
	for _, node := range s.Servers(harness.RoleNode) {
		if node.Serving() && node.Name == node.NodeID {
			nodes = append(nodes, Node{node.NodeID, node.Addr()})
		}
	}
	return nodes
}

// logf tells what is being done.
func (s *Stage) logf(format string, args ...any) {
	if s.options.Log != nil {
		s.options.Log(format, args...)
	}
}

// progress waits until every client was served some times. What it says is wrong has
// the last words of all processes.
func (s *Stage) progress(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, progressBound)
	defer cancel()
	if err := s.Audit.Progress(bounded); err != nil {
		return fmt.Errorf("%w\n%s", err, s.Describe())
	}
	return nil
}

// check compares everything, through all routers and on all nodes.
func (s *Stage) check(ctx context.Context) error {
	begin := time.Now()
	bounded, cancel := context.WithTimeout(ctx, checkBound)
	defer cancel()
	if err := s.Audit.Check(bounded); err != nil {
		return fmt.Errorf("%w\n%s", err, s.Describe())
	}
	if err := s.Audit.CheckDigests(bounded, s.store, s.Name(), s.nodes()); err != nil {
		return fmt.Errorf("%w\n%s", err, s.Describe())
	}
	s.logf("checked in %s", time.Since(begin).Round(time.Millisecond))
	return nil
}

// during applies a fault, waits until the clients were served all the same, ends the
// fault, waits again and checks everything.
func (s *Stage) during(ctx context.Context, name string, begin, end func() error) error {
	s.logf("%s", name)
	fail := func(err error) error { return fmt.Errorf("%s: %w", name, err) }
	if err := begin(); err != nil {
		return fail(err)
	}
	wait(ctx, faultLeast)
	if err := s.progress(ctx); err != nil {
		return fail(err)
	}
	s.logf("so far: %s", s.Audit.Report())
	if err := end(); err != nil {
		return fail(err)
	}
	if err := s.progress(ctx); err != nil {
		return fail(fmt.Errorf("after it: %w", err))
	}
	if err := s.check(ctx); err != nil {
		return fail(err)
	}
	return nil
}

// leader returns the node that leads the most shards.
func (s *Stage) leader(ctx context.Context) (*harness.Server, error) {
	bounded, cancel := context.WithTimeout(ctx, progressBound)
	defer cancel()
	for {
		leads, err := Leads(bounded, s.store, s.Name(), s.nodes())
		best := ""
		for node, count := range leads {
			if best == "" || count > leads[best] || count == leads[best] && node < best {
				best = node
			}
		}
		if best != "" {
			s.logf("leaders: %v", leads)
			return s.Server(best), nil
		}
		if !wait(bounded, settlePause) {
			return nil, fmt.Errorf("%w: no node leads a shard: %w", ErrStalled, errors.Join(err, bounded.Err()))
		}
	}
}

// until waits for a view of the placement store that is as wanted. Why says what is
// missing; "" when nothing is.
func (s *Stage) until(ctx context.Context, what string, why func(view shardmap.View) string) error {
	bounded, cancel := context.WithTimeout(ctx, moveBound)
	defer cancel()
	for {
		view, err := s.store.Load(bounded)
		missing := ""
		switch {
		case err != nil:
			missing = err.Error()
		case view.Map == nil:
			missing = "there is no map"
		default:
			missing = why(view)
		}
		if missing == "" {
			return nil
		}
		if err := s.Audit.Err(); err != nil {
			return err
		}
		if !wait(bounded, settlePause) {
			return fmt.Errorf("%w: waiting for %s: %s\n%s", ErrStalled, what, missing, s.Describe())
		}
	}
}
