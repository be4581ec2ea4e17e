package kubernetes

import (
	"context"
	"fmt"
	"strings"

	"github.com/tickmesh/tickmesh/hack/kubernetes/lab"
)

// groups adds a group of two nodes to the three, and takes it away again.
func (s *stage) groups() {
	s.phase("recipe add-group: two nodes of another kind", func(ctx context.Context) error {
		if err := s.machines(ctx, 5); err != nil {
			return err
		}
		if err := s.recipeSettled(ctx, 5, "add-group"); err != nil {
			return err
		}
		return s.shardsOn(ctx, "demo-node-arm-1", true)
	})
	s.phase("a node of the group is deleted and comes back", func(ctx context.Context) error {
		if _, err := s.kubectl(ctx, "delete", "pod/demo-node-arm-0"); err != nil {
			return err
		}
		if err := s.podReady(ctx, "demo-node-arm-0"); err != nil {
			return err
		}
		return s.settled(ctx, 5)
	})
	s.phase("recipe remove-group: they are emptied and go", func(ctx context.Context) error {
		if err := s.recipeSettled(ctx, 3, "remove-group"); err != nil {
			return err
		}
		return s.rack.WaitOutput(ctx, "", "--namespace="+namespace, "get", "statefulset/demo-node-arm", "--ignore-not-found", "--output=name")
	})
}

// growRefused asks for larger volumes than the class can make: that is said, and nothing else stops.
func (s *stage) growRefused() {
	size, err := s.kubectl(s.Context(), "get", "tmc/demo", "--output=jsonpath={.spec.nodes.storage.size}")
	if err != nil {
		s.Fatal(err)
	}
	s.phase("volumes that cannot grow: a pod comes back all the same", func(ctx context.Context) error {
		if err := s.patch(ctx, "tmc/demo", `{"spec":{"nodes":{"storage":{"size":"40Gi"}}}}`); err != nil {
			return err
		}
		if err := s.rack.WaitOutput(ctx, "VolumesCannotGrow", "--namespace="+namespace, "get", "tmc/demo",
			`--output=jsonpath={.status.conditions[?(@.type=="Progressing")].reason}`); err != nil {
			return err
		}
		if _, err := s.kubectl(ctx, "delete", "pod/demo-node-2"); err != nil {
			return err
		}
		return s.podReady(ctx, "demo-node-2")
	})
	s.phase("the size is set back", func(ctx context.Context) error {
		if err := s.patch(ctx, "tmc/demo", fmt.Sprintf(`{"spec":{"nodes":{"storage":{"size":%q}}}}`, size)); err != nil {
			return err
		}
		return s.settled(ctx, 3)
	})
}

// moveVolumes moves the volumes of the nodes to another storage class.
func (s *stage) moveVolumes() {
	s.phase("recipe move-volumes: one node after the other", func(ctx context.Context) error {
		w, err := s.watchNodes(ctx)
		if err != nil {
			return err
		}
		defer w.stop()
		if err := s.recipe(ctx, "move-volumes"); err != nil {
			return err
		}
		if err := lab.Wait(ctx, func() (bool, error) {
			classes, err := s.kubectl(ctx, "get", "pvc", "--selector=app.kubernetes.io/component=node", "--output=jsonpath={.items[*].metadata.name} {.items[*].spec.storageClassName}")
			// Volumes of nodes that are no more are left as they were.
			if err == nil && strings.Count(classes, lab.OtherClass) < 3 {
				err = fmt.Errorf("claims and their classes: %q", classes)
			}
			return err == nil, err
		}); err != nil {
			return err
		}
		if err := s.settled(ctx, 3); err != nil {
			return err
		}
		for node := range 3 {
			class, err := s.kubectl(ctx, "get", fmt.Sprintf("pvc/data-demo-node-%d", node), "--output=jsonpath={.spec.storageClassName}")
			if err == nil && class != lab.OtherClass {
				err = fmt.Errorf("the volume of node %d is of the class %q", node, class)
			}
			if err != nil {
				return err
			}
		}
		return w.stop()
	})
}

// patch merges text into a resource.
func (s *stage) patch(ctx context.Context, resource, text string) error {
	_, err := s.kubectl(ctx, "patch", resource, "--type=merge", "--patch="+text)
	return err
}
