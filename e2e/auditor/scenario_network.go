package auditor

import (
	"context"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// healed ends all faults of the network.
func (s *Stage) healed() error {
	s.Network.Heal()
	return nil
}

// cutPairs cuts two nodes from each other: silently, by an error, so that bytes come
// late, and in one direction only.
func cutPairs(ctx context.Context, s *Stage) error {
	leader, err := s.leader(ctx)
	if err != nil {
		return err
	}
	a := leader.Name
	for _, other := range s.Servers(harness.RoleNode) {
		b := other.Name
		if a == b {
			continue
		}
		cuts := []struct {
			name string
			cut  func()
		}{
			{"lose all between %s and %s", func() { s.Network.SetBoth(a, b, harness.Swallow()) }},
			{"lose all from %s to %s", func() { s.Network.Set(a, b, harness.Swallow()) }},
			{"lose all to %s from %s", func() { s.Network.Set(b, a, harness.Swallow()) }},
			{"hold all between %s and %s", func() { s.Network.SetBoth(a, b, harness.Hold()) }},
			{"refuse all between %s and %s", func() { s.Network.SetBoth(a, b, harness.Refuse()) }},
		}
		for _, cut := range cuts {
			err := s.during(ctx, fmt.Sprintf(cut.name, a, b), func() error {
				cut.cut()
				return nil
			}, s.healed)
			if err != nil {
				return err
			}
		}
		if !s.options.Long {
			return nil
		}
	}
	return nil
}

// slowness is the delay of a slow line.
const slowness = 50 * time.Millisecond

// isolateLeader cuts a leader off from all other nodes while routers still reach it,
// slows it, and cuts a router off from it.
func isolateLeader(ctx context.Context, s *Stage) error {
	leader, err := s.leader(ctx)
	if err != nil {
		return err
	}
	among := func(flow harness.Flow) func() error {
		return func() error {
			for _, other := range s.Servers(harness.RoleNode) {
				if other != leader {
					s.Network.SetBoth(leader.Name, other.Name, flow)
				}
			}
			return nil
		}
	}
	steps := []struct {
		name string
		flow harness.Flow
	}{
		{"lose all between " + leader.Name + " and the other nodes", harness.Swallow()},
		{"hold all between " + leader.Name + " and the other nodes", harness.Hold()},
		{"slow " + leader.Name, harness.Delay(slowness)},
	}
	for _, step := range steps {
		if err := s.during(ctx, step.name, among(step.flow), s.healed); err != nil {
			return err
		}
	}
	return s.cutRouter(ctx, s.Servers(harness.RoleRouter)[0], harness.Hold())
}

// cutRouter cuts a router from the present leader of the most shards, which other nodes
// reach: they take over, so that all is served through that router, too.
func (s *Stage) cutRouter(ctx context.Context, router *harness.Server, flow harness.Flow) error {
	leader, err := s.leader(ctx)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s between %s and %s", flow, router.Name, leader.Name)
	return s.during(ctx, name, func() error {
		s.Network.SetBoth(router.Name, leader.Name, flow)
		return nil
	}, s.healed)
}
