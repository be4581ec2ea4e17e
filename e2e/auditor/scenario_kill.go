package auditor

import (
	"context"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// stopBound is the time that a process may take to end when it is asked to.
const stopBound = time.Minute

// suspension is how long a leader is suspended in full length: longer than anybody
// waits for it.
const suspension = 30 * time.Second

// killEach kills each node and each router, one at a time, and starts it again.
func killEach(ctx context.Context, s *Stage) error {
	for _, server := range append(s.Servers(harness.RoleNode), s.Servers(harness.RoleRouter)...) {
		err := s.during(ctx, "kill "+server.Name, server.Kill, func() error { return server.Start(ctx) })
		if err != nil {
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
		name := fmt.Sprintf("round %d: suspend %s", round, leader.Name)
		err = s.during(ctx, name, leader.Suspend, func() error {
			if s.options.Long {
				wait(ctx, suspension)
			}
			// Every point of the newest is likely to be written again by now.
			for range 5 {
				if err := s.progress(ctx); err != nil {
					return err
				}
			}
			return leader.Resume()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rollAll stops each process cleanly and starts it again, as an upgrade does.
func rollAll(ctx context.Context, s *Stage) error {
	for _, server := range append(s.Servers(harness.RoleNode), s.Servers(harness.RoleRouter)...) {
		err := s.during(ctx, "roll "+server.Name, func() error { return server.Stop(stopBound) }, func() error { return server.Start(ctx) })
		if err != nil {
			return err
		}
	}
	return s.during(ctx, "roll etcd", func() error { return s.Etcd.Stop(stopBound) }, func() error { return s.Etcd.Start(ctx) })
}
