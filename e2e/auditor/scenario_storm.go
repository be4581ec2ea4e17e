package auditor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// storm plays all kinds of faults at once, more than a cluster has to serve through.
// After each stretch all of them end; then it has to serve again and to have kept its
// word.
func storm(ctx context.Context, s *Stage) error {
	stretches, faults := 3, 8
	if s.options.Long {
		stretches = 40
	}
	for stretch := range stretches {
		s.logf("stretch %d", stretch)
		for range faults {
			if err := s.drawFault(ctx); err != nil {
				return err
			}
			if !wait(ctx, time.Duration(s.random.IntN(700))*time.Millisecond) {
				return ctx.Err()
			}
		}
		if err := s.calm(ctx); err != nil {
			return fmt.Errorf("stretch %d: %w", stretch, err)
		}
		if err := s.progress(ctx); err != nil {
			return fmt.Errorf("after stretch %d: %w", stretch, err)
		}
		if err := s.check(ctx); err != nil {
			return fmt.Errorf("after stretch %d: %w", stretch, err)
		}
	}
	if err := s.store.SetDesired(ctx, stormDrained, shardmap.Active); err != nil {
		return err
	}
	return s.until(ctx, "the moves to end", underWay)
}

// stormDrained is the node that is drained and wanted again.
const stormDrained = "n4"

// drawFault begins, or ends, a fault of any kind.
func (s *Stage) drawFault(ctx context.Context) error {
	nodes, routers := s.Servers(harness.RoleNode), s.Servers(harness.RoleRouter)
	node, router := nodes[s.random.IntN(len(nodes))], routers[s.random.IntN(len(routers))]
	// Nobody talks to a router but clients.
	others := append(append(slices.Clone(nodes), routers...), s.Etcd)
	others = slices.DeleteFunc(others, func(other *harness.Server) bool { return other == node })
	a := node
	b := others[s.random.IntN(len(others))]
	if s.random.IntN(5) == 0 {
		a, b = router, s.Etcd
	}
	flows := []harness.Flow{harness.Swallow(), harness.Hold(), harness.Refuse(), harness.Delay(slowness), harness.Pass()}
	flow := flows[s.random.IntN(len(flows))]
	switch draw := s.random.IntN(8); draw {
	case 0, 1, 2:
		f := s.cut(flow, draw < 2, a, b)
		s.logf("%s", f.name)
		return f.begin(ctx)
	case 3, 4:
		return s.killOrStart(ctx, node)
	case 5:
		return s.suspendOrResume(node)
	case 6:
		return s.killOrStart(ctx, []*harness.Server{router, s.Etcd}[s.random.IntN(2)])
	case 7:
		return s.changeMind(ctx)
	}
	return nil
}

func (s *Stage) killOrStart(ctx context.Context, server *harness.Server) error {
	switch {
	case server.Running() && s.scenario.Disks && server.Role == harness.RoleNode:
		s.logf("cut the power of %s", server.Name)
		return server.CutPower()
	case server.Running():
		s.logf("kill %s", server.Name)
		return server.Kill()
	}
	s.logf("start %s", server.Name)
	if server.Role == harness.RoleEtcd {
		return server.Start(ctx)
	}
	return server.Launch() // it may have nobody to talk to
}

func (s *Stage) suspendOrResume(server *harness.Server) error {
	switch {
	case !server.Running():
		return nil
	case server.Serving():
		s.logf("suspend %s", server.Name)
		return server.Suspend()
	}
	s.logf("resume %s", server.Name)
	return server.Resume()
}

// changeMind drains a node, or wants it again. With etcd away nothing can be wanted.
func (s *Stage) changeMind(ctx context.Context) error {
	desired := []shardmap.Desired{shardmap.Draining, shardmap.Active}[s.random.IntN(2)]
	s.logf("%s is to be %s", stormDrained, desired)
	bounded, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := s.store.SetDesired(bounded, stormDrained, desired); err != nil {
		s.logf("not told: %v", err)
	}
	return nil
}

// calm ends all faults.
func (s *Stage) calm(ctx context.Context) error {
	s.Network.Heal()
	if !s.Etcd.Running() {
		if err := s.Etcd.Start(ctx); err != nil {
			return err
		}
	}
	for _, role := range []harness.Role{harness.RoleNode, harness.RoleRouter} {
		for _, server := range s.Servers(role) {
			if server.Running() && !server.Serving() {
				if err := server.Resume(); err != nil {
					return err
				}
			}
			if !server.Running() {
				if err := server.Start(ctx); err != nil {
					return err
				}
			}
		}
	}
	bounded, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	return s.WaitReady(bounded)
}
