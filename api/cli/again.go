package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/client"
)

const (
	// againFor is how long a step of a backup or a restore is tried again after it failed first: a node that is restarted loads its index
	// and replays its log, and its shards are led by others only where there are other copies. Kubernetes makes a pod anew in about a minute.
	againFor      = 2 * time.Minute
	againDelayMin = 500 * time.Millisecond
	againDelayMax = 8 * time.Second
)

// again does something again, for againFor, if the cluster had trouble in the middle.
func again(ctx context.Context, do func() error) error {
	retry := backoff.Exponential{Min: againDelayMin, Max: againDelayMax}
	var failedAt time.Time // first
	for failures := 1; ; failures++ {
		err := do()
		if !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrOverloaded) {
			return err
		}
		if failures == 1 {
			failedAt = time.Now()
		}
		delay := retry.Delay(failures)
		if time.Since(failedAt)+delay > againFor {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; %w", err, context.Cause(ctx))
		case <-time.After(delay):
		}
	}
}
