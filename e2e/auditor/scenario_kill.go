package auditor

import (
	"context"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// suspension is how long a leader is suspended in full length: longer than anybody
// waits for it.
const suspension = 30 * time.Second

// killEach kills each node and each router, one at a time, and starts it again.
func killEach(ctx context.Context, s *Stage) error {
	for _, server := range append(s.Servers(harness.RoleNode), s.Servers(harness.RoleRouter)...) {
		if err := s.during(ctx, killed(server)); err != nil {
			return err
		}
	}
	return nil
}

// killAtRandom kills any process at any moment, also while another one recovers;
// never two nodes at once, as then some shards have no majority.
func killAtRandom(ctx context.Context, s *Stage) error {
	rounds := 6
	if s.options.Long {
		rounds = 100
	}
	servers := append(s.Servers(harness.RoleNode), s.Servers(harness.RoleRouter)...)
	for round := range rounds {
		server := servers[s.random.IntN(len(servers))]
		s.logf("round %d: kill %s", round, server.Name)
		if err := server.Kill(); err != nil {
			return err
		}
		wait(ctx, time.Duration(s.random.IntN(300))*time.Millisecond)
		if err := server.Start(ctx); err != nil {
			return err
		}
		if s.random.IntN(2) == 0 {
			continue // the next kill comes at once
		}
		if err := s.progress(ctx); err != nil {
			return fmt.Errorf("round %d, after a kill of %s: %w", round, server.Name, err)
		}
		if err := s.check(ctx); err != nil {
			return fmt.Errorf("round %d, after a kill of %s: %w", round, server.Name, err)
		}
	}
	return nil
}

// suspendLeader suspends a leader in the middle of the requests that are on their
// way to it. Routers send them again to the next leader, clients write the points
// again and delete some; then the old one goes on with what it has in its hands.
func suspendLeader(ctx context.Context, s *Stage) error {
	rounds := 2
	if s.options.Long {
		rounds = 4
	}
	for round := range rounds {
		leader, err := s.leader(ctx)
		if err != nil {
			return err
		}
		f := suspended(leader)
		f.name = fmt.Sprintf("round %d: %s", round, f.name)
		resume := f.end
		f.end = func(ctx context.Context) error {
			if s.options.Long {
				wait(ctx, suspension)
			}
			// Every point of the newest is likely to be written again by now.
			for range 5 {
				if err := s.progress(ctx); err != nil {
					return err
				}
			}
			return resume(ctx)
		}
		if err := s.during(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// rollAll stops each process cleanly and starts it again, as an upgrade does.
func rollAll(ctx context.Context, s *Stage) error {
	for _, server := range append(s.Servers(harness.RoleNode), s.Servers(harness.RoleRouter)...) {
		if err := s.during(ctx, rolled(server)); err != nil {
			return err
		}
	}
	return s.during(ctx, rolled(s.Etcd))
}
