package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
)

// TestAgain: what may pass is tried again for as long as a node needs to come back, and no longer; all else is not.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		down := func(until time.Duration) func() error {
			return func() error {
				if time.Since(start) < until {
					return fmt.Errorf("a node: %w", client.ErrUnavailable)
				}
				return nil
			}
		}
		if err := again(t.Context(), down(100*time.Second)); err != nil {
			t.Errorf("a node that comes back after 100 s: %v", err)
		}
		start = time.Now()
		err := again(t.Context(), down(time.Hour))
		if took := time.Since(start); !errors.Is(err, client.ErrUnavailable) || took > againFor || took < againFor-againDelayMax {
			t.Errorf("a node that stays away: %v after %v", err, took)
		}
		start = time.Now()
		if err := again(t.Context(), func() error { return client.ErrRefused }); !errors.Is(err, client.ErrRefused) || time.Since(start) > 0 {
			t.Errorf("what stays refused: %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := again(ctx, down(time.Hour)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without time: %v", err)
		}
	})
}
