package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// waitInterval is how often a condition is looked at. Most conditions take a kubectl, which
// takes a tenth of a second of a processor.
const waitInterval = 500 * time.Millisecond

// Wait asks until the answer is yes, or ctx ends; then its error holds the last answer's.
// Errors with a no are asked again.
func Wait(ctx context.Context, ask func() (done bool, err error)) error {
	for {
		done, err := ask()
		if done {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(waitInterval):
		}
	}
}

// WaitOutput runs kubectl until it writes just wanted, as long as ctx allows.
func (r *Rack) WaitOutput(ctx context.Context, wanted string, args ...string) error {
	return Wait(ctx, func() (bool, error) {
		output, err := r.Kubectl(ctx, args...)
		if err != nil {
			return false, err
		}
		if strings.TrimSpace(output) != wanted {
			return false, fmt.Errorf("kubectl %s: %q, not %q", strings.Join(args, " "), output, wanted)
		}
		return true, nil
	})
}

// WaitNodes waits until just so many machines are ready in the eyes of Kubernetes.
func (r *Rack) WaitNodes(ctx context.Context, count int) error {
	return Wait(ctx, func() (bool, error) {
		states, err := r.Kubectl(ctx, "get", "nodes", `--output=jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
		if err != nil {
			return false, err
		}
		if strings.Count(states, "True") != count {
			return false, fmt.Errorf("machines ready: %s; not %d", states, count)
		}
		return true, nil
	})
}
