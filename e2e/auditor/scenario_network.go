package auditor

import (
	"context"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// cutPairs cuts two nodes from each other: silently, by an error, so that bytes come
// late, and in one direction only.
func cutPairs(ctx context.Context, s *Stage) error {
	a, err := s.leader(ctx)
	if err != nil {
		return err
	}
	for _, b := range s.Servers(harness.RoleNode) {
		if a == b {
			continue
		}
		for _, f := range []fault{
			s.cut(harness.Swallow(), false, a, b),
			s.cut(harness.Swallow(), true, a, b),
			s.cut(harness.Swallow(), true, b, a),
			s.cut(harness.Hold(), false, a, b),
			s.cut(harness.Refuse(), false, a, b),
		} {
			if err := s.during(ctx, f); err != nil {
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
	others := slices.DeleteFunc(s.Servers(harness.RoleNode), func(other *harness.Server) bool { return other == leader })
	for _, flow := range []harness.Flow{harness.Swallow(), harness.Hold(), harness.Delay(slowness)} {
		if err := s.during(ctx, s.cut(flow, false, leader, others...)); err != nil {
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
	return s.during(ctx, s.cut(flow, false, router, leader))
}
