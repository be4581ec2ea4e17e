package auditor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// startBound bounds the start of processes, of which nothing tells how far it has come: they
// need a hundredth of it alone, and the rest is for a machine that is busy.
const startBound = 90 * time.Second

const pollInterval = 50 * time.Millisecond

// faultLeast is how long a fault lasts at least: longer than an election needs, so
// that it is not over before anybody has noticed.
const faultLeast = 1500 * time.Millisecond

// StageOptions say how a scenario is played.
type StageOptions struct {
	Binary, EtcdBinary string
	Dir                string
	Seed               uint64
	Kills              int // of a scenario that counts them
	// Long plays more rounds, and pauses as long as the faults of real life.
	Long bool
	Log  func(format string, args ...any)
}

// Stage is a cluster of processes, or one standalone server, with an audit on it.
type Stage struct {
	*harness.Cluster
	Audit *Audit

	scenario *Scenario
	options  StageOptions
	store    shardmap.Store // nil: the server is standalone
	random   *rand.Rand
	grpc     string // where the router serves the command line; empty: nowhere
}

// smallFlags make the engine checkpoint, sort pages, switch files and compact all the
// time, so that faults meet these.
func smallFlags() []string {
	return []string{
		"--checkpoint-bytes", "256KiB", "--flush-interval", "200ms", "--wal-file-bytes", "128KiB", "--page-file-bytes", "64KiB",
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

// NewStage starts what a scenario plays on and the audit, and waits until all clients are served.
func NewStage(ctx context.Context, scenario *Scenario, options StageOptions) (*Stage, error) {
	of := harness.ClusterOptions{
		Binary: options.Binary, EtcdBinary: options.EtcdBinary, Dir: options.Dir, Nodes: scenario.Nodes, Routers: scenario.Routers,
		Standalone: scenario.Nodes == 0, Shards: stageShards, Replication: scenario.Replication, WALSync: scenario.WALSync,
		NodeFlags: smallFlags(), RouterFlags: []string{"--replace-after", replaceAfter},
	}
	if !of.Standalone {
		of.NodeFlags = append(of.NodeFlags, "--digest-interval", "2s")
	}
	if scenario.Disks {
		of.DiskBytes = diskBytes
	}
	grpc := ""
	if scenario.GRPC {
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
	s := &Stage{Cluster: cluster, scenario: scenario, options: options, random: rand.New(rand.NewPCG(options.Seed, 0)), grpc: grpc}
	if err := s.open(ctx); err != nil {
		err = fmt.Errorf("%w\n%s", err, cluster.Describe())
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stage) open(ctx context.Context) error {
	config := oneServerConfig(s)
	if !s.standalone() {
		store, err := s.OpenStore()
		if err != nil {
			return err
		}
		config, s.store = DefaultConfig(), store
	}
	config.Seed = s.options.Seed
	bounded, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if err := s.WaitReady(bounded); err != nil {
		return err
	}
	var err error
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
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	return report, errors.Join(err, s.Cluster.Stop())
}

// standalone reports whether one server is all that there is.
func (s *Stage) standalone() bool { return s.scenario.Nodes == 0 }

// Routers implements Target.
func (s *Stage) Routers() []string {
	var addresses []string
	for _, router := range append(s.Servers(harness.RoleRouter), s.Servers(harness.RoleStandalone)...) {
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

// logf reports what is being done.
func (s *Stage) logf(format string, args ...any) {
	if s.options.Log != nil {
		s.options.Log(format, args...)
	}
}

// progress waits until every client was served some times. What it says is wrong has
// the last words of all processes.
func (s *Stage) progress(ctx context.Context) error {
	if err := s.Audit.Progress(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, s.Describe())
	}
	return nil
}

// check compares everything, through all routers and on all nodes.
func (s *Stage) check(ctx context.Context) error {
	begin := time.Now()
	if err := s.Audit.Check(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, s.Describe())
	}
	if !s.standalone() {
		if err := s.Audit.CheckDigests(ctx, s.store, s.Name(), s.nodes()); err != nil {
			return fmt.Errorf("%w\n%s", err, s.Describe())
		}
	}
	s.logf("checked in %s", time.Since(begin).Round(time.Millisecond))
	return nil
}

// leader returns the node that leads the most shards.
func (s *Stage) leader(ctx context.Context) (*harness.Server, error) {
	bounded, cancel := context.WithTimeout(ctx, standstillMax)
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
		if !wait(bounded, pollInterval) {
			return nil, fmt.Errorf("%w: no node leads a shard: %w", ErrStalled, errors.Join(err, bounded.Err()))
		}
	}
}

// until waits for a view of the placement store that is as wanted, while the map changes or
// what is missing does. Why says what is missing; "" when nothing is.
func (s *Stage) until(ctx context.Context, what string, why func(view shardmap.View) string) error {
	type state struct {
		epoch   uint64
		missing string
	}
	var stands standstill[state]
	for {
		view, err := s.store.Load(ctx)
		missing, epoch := "", uint64(0)
		switch {
		case err != nil:
			missing = err.Error()
		case view.Map == nil:
			missing = "there is no map"
		default:
			missing, epoch = why(view), view.Map.Epoch
		}
		if missing == "" {
			return nil
		}
		if err := s.Audit.Err(); err != nil {
			return err
		}
		if stands.tooLong(time.Now(), state{epoch, missing}) || !wait(ctx, pollInterval) {
			return fmt.Errorf("%w: waiting for %s: %s\n%s", ErrStalled, what, missing, s.Describe())
		}
	}
}

// counterOf returns a counter without labels of the present life of a node.
func counterOf(ctx context.Context, node *harness.Server, name string) (float64, error) {
	bounded, cancel := context.WithTimeout(ctx, digestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(bounded, http.MethodGet, "http://"+node.HTTPAddr()+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%w: %s does not tell %s", ErrStalled, node.Name, name)
}
