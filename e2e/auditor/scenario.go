package auditor

import (
	"context"
	"fmt"
)

// Scenario is a play of faults with a name.
type Scenario struct {
	Name        string
	Nodes       int // at the start; 0: one standalone server is all
	Routers     int
	Replication int
	WALSync     string // "" leaves the default
	Disks       bool   // it cuts the power of nodes
	Core        bool   // played by `make test`; the others by `make test-all`
	GRPC        bool   // its one router serves the command line
	Ends        bool   // its one server ends before each check; see model.Config
	play        func(ctx context.Context, s *Stage) error
}

// Scenarios returns all of them, of which one server is the smallest.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "one server", Core: true, WALSync: "interval", Ends: true, play: killOne},
		{Name: "one server, synced before each answer", Core: true, WALSync: "always", Ends: true, play: killOne},
		{Name: "cut the power of one server", Core: true, WALSync: "always", Disks: true, Ends: true, play: cutPowerOfServer},
		{Name: "fill the disk of one server", Core: true, WALSync: "always", Disks: true, play: fillDiskOfServer},
		{Name: "kill each in turn", Core: true, Nodes: 3, Routers: 2, Replication: 2, play: killEach},
		{Name: "kill at random", Nodes: 3, Routers: 2, Replication: 3, play: killAtRandom},
		{Name: "repeat after a kill", Core: true, Nodes: 3, Routers: 2, Replication: 2, play: repeatAfterKill},
		{Name: "suspend a leader", Nodes: 3, Routers: 2, Replication: 2, play: suspendLeader},
		{Name: "cut pairs of nodes", Nodes: 3, Routers: 2, Replication: 2, play: cutPairs},
		{Name: "isolate a leader", Nodes: 3, Routers: 2, Replication: 3, play: isolateLeader},
		{Name: "cut from etcd", Nodes: 3, Routers: 2, Replication: 2, play: cutFromEtcd},
		{Name: "kill etcd", Nodes: 3, Routers: 2, Replication: 2, play: killEtcd},
		{Name: "roll etcd back", Core: true, Nodes: 3, Routers: 2, Replication: 2, play: rollEtcdBack},
		{Name: "scale 3 5 3", Core: true, Nodes: 3, Routers: 2, Replication: 2, play: scale},
		{Name: "empty disk and twin", Nodes: 3, Routers: 2, Replication: 2, play: replaceDisk},
		{Name: "roll all processes", Nodes: 3, Routers: 2, Replication: 2, play: rollAll},
		{Name: "cut the power of one", Nodes: 3, Routers: 2, Replication: 2, WALSync: "interval", Disks: true, play: cutPowerOfOne},
		{Name: "cut the power of all", Core: true, Nodes: 3, Routers: 2, Replication: 2, WALSync: "always", Disks: true, play: cutPowerOfAll},
		{Name: "cut the power of all, synced each second", Nodes: 3, Routers: 2, Replication: 2, WALSync: "interval", Disks: true, play: cutPowerOfAllUnsynced},
		{Name: "cut the power of all, one stays away", Nodes: 3, Routers: 1, Replication: 2, WALSync: "interval", Disks: true, GRPC: true, play: cutPowerOneAway},
		{Name: "damage segments", Core: true, Nodes: 3, Routers: 2, Replication: 2, play: damageSegments},
		{Name: "storm", Nodes: 4, Routers: 2, Replication: 3, play: storm},
		{Name: "storm with witnesses", Core: true, Nodes: 4, Routers: 2, Replication: 2, play: storm},
		{Name: "storm with power cuts", Nodes: 4, Routers: 2, Replication: 3, WALSync: "always", Disks: true, play: storm},
	}
}

// Run plays the scenario. Whatever it did to the network is healed at the end, and
// everything compared once more. Errors: harness.ErrNoDisk when the scenario needs disks
// that cannot be made here.
func (s *Scenario) Run(ctx context.Context, options StageOptions) (Report, error) {
	stage, err := NewStage(ctx, s, options)
	if err != nil {
		return Report{}, err
	}
	defer stage.Close()
	if err := s.playAndCheck(ctx, stage); err != nil {
		return stage.Audit.Report(), err
	}
	return stage.Finish()
}

func (s *Scenario) playAndCheck(ctx context.Context, stage *Stage) error {
	if err := stage.check(ctx); err != nil {
		return fmt.Errorf("before any fault: %w", err)
	}
	if err := s.play(ctx, stage); err != nil {
		return err
	}
	stage.Network.Heal()
	if err := stage.progress(ctx); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	return stage.check(ctx)
}
