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
	backupTries    = 5
	backupRetryMin = 500 * time.Millisecond
	backupRetryMax = 8 * time.Second
)

// again does something again if the cluster had trouble in the middle.
func again(ctx context.Context, do func() error) error {
	retry := backoff.Exponential{Min: backupRetryMin, Max: backupRetryMax}
	for try := 1; ; try++ {
		err := do()
		passes := errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrOverloaded)
		if !passes || try == backupTries {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; %w", err, context.Cause(ctx))
		case <-time.After(retry.Delay(try)):
		}
	}
}
