package kubernetes

import (
	"context"
	"fmt"
	"strings"
)

// sleep has the cluster restarted in windows only, stopped, and woken again with all that it had. Nobody writes meanwhile.
func (s *stage) sleep() {
	s.phase("recipes maintenance-windows and maintain", func(ctx context.Context) error {
		if err := s.recipe(ctx, "maintenance-windows"); err != nil {
			return err
		}
		return s.recipe(ctx, "maintain")
	})
	s.phase("recipe hibernate: no pod is left but the operator's", func(ctx context.Context) error {
		if err := s.recipe(ctx, "hibernate"); err != nil {
			return err
		}
		left, err := s.kubectl(ctx, "get", "pods", "--selector=app.kubernetes.io/instance=demo", "--field-selector=status.phase=Running", "--output=name")
		if err == nil && strings.TrimSpace(left) != "" {
			err = fmt.Errorf("there are still %q", left)
		}
		return err
	})
	s.phase("recipe wake: compared", func(ctx context.Context) error {
		if err := s.recipeSettled(ctx, 3, "wake"); err != nil {
			return err
		}
		if err := s.recipe(ctx, "look"); err != nil {
			return err
		}
		if err := s.load.findDoor(ctx); err != nil {
			return err
		}
		return s.load.check(ctx)
	})
}
