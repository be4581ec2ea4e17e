package auditor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// fault is trouble that begins and ends. All that happens to servers, disks and the network of a
// stage is one of these.
type fault struct {
	name       string
	begin, end func(ctx context.Context) error
}

// stopBound is the time that a process may take to end when it is asked to.
const stopBound = time.Minute

func without(do func() error) func(context.Context) error {
	return func(context.Context) error { return do() }
}

// killed is a server that is killed, and started again.
func killed(s *harness.Server) fault {
	return fault{"kill " + s.Name, without(s.Kill), s.Start}
}

// rolled is a server that is stopped cleanly, and started again.
func rolled(s *harness.Server) fault {
	return fault{"roll " + s.Name, without(func() error { return s.Stop(stopBound) }), s.Start}
}

// suspended is a process that stands where it is, as one does whose machine is too busy.
func suspended(s *harness.Server) fault {
	return fault{"suspend " + s.Name, without(s.Suspend), without(s.Resume)}
}

// unpowered is a server whose machine has lost its power, and with it what was not synced.
func unpowered(s *harness.Server) fault {
	return fault{"cut the power of " + s.Name, without(s.CutPower), s.Start}
}

// full is a server whose disk has no room.
func full(s *harness.Server) fault {
	return fault{"fill the disk of " + s.Name, without(s.FillDisk), without(s.FreeDisk)}
}

// frozen is a server whose disk takes nothing: who writes or syncs waits.
func frozen(s *harness.Server) fault {
	return fault{"freeze the disk of " + s.Name, without(s.FreezeDisk), without(s.ThawDisk)}
}

// cut is a network that does something between a server and each of others; one way: only to
// what goes from it to them.
func (s *Stage) cut(flow harness.Flow, oneWay bool, a *harness.Server, others ...*harness.Server) fault {
	name, set := fmt.Sprintf("%s between %s and", flow, a.Name), s.Network.SetBoth
	if oneWay {
		name, set = fmt.Sprintf("%s from %s to", flow, a.Name), s.Network.Set
	}
	for _, b := range others {
		name += " " + b.Name
	}
	begin := func() error {
		for _, b := range others {
			set(a.Name, b.Name, flow)
		}
		return nil
	}
	return fault{name, without(begin), without(s.healed)}
}

// healed ends all faults of the network.
func (s *Stage) healed() error {
	s.Network.Heal()
	return nil
}

// during applies a fault, waits until the clients were served all the same, ends the
// fault, waits again and checks everything.
func (s *Stage) during(ctx context.Context, f fault) error {
	return s.duringUnserved(ctx, f, s.progress)
}

// duringUnserved is during with something else to wait for while the fault lasts.
func (s *Stage) duringUnserved(ctx context.Context, f fault, until func(context.Context) error) error {
	s.logf("%s", f.name)
	fail := func(err error) error { return fmt.Errorf("%s: %w", f.name, err) }
	if err := f.begin(ctx); err != nil {
		return fail(err)
	}
	wait(ctx, faultLeast)
	if err := until(ctx); err != nil {
		return fail(errors.Join(err, f.end(ctx)))
	}
	s.logf("so far: %s", s.Audit.Report())
	if err := f.end(ctx); err != nil {
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
