package plugin

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

func (c *command) newDrain() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "drain NODE...", Short: "Empty nodes, and keep them empty until they are undrained", Args: cobra.MinimumNArgs(1),
		Long: `Empties nodes, and keeps them empty until they are undrained: it writes their names into
spec.nodes.drained of the cluster. It is refused, with the reason, where copies or space would be
lost. The command returns at once; status shows how far it is.`,
		Example: "  kubectl tickmesh drain demo-node-1 --dry-run\n  kubectl tickmesh drain demo-node-1",
		RunE: func(cmd *cobra.Command, nodes []string) error {
			name, err := clusterOf(nodes)
			if err != nil {
				return err
			}
			return c.with(cmd.Context(), []string{name}, func(k *Kubernetes, cluster *v1alpha1.TickMeshCluster, mesh Mesh) error {
				all := slices.Clone(cluster.Spec.Nodes.Drained)
				for _, node := range nodes {
					if !slices.Contains(all, node) {
						all = append(all, node)
					}
				}
				r, err := forecast(cmd.Context(), cluster, cluster, mesh, all)
				if err != nil {
					return err
				}
				if err := r.problem(); err != nil {
					return err
				}
				if !dryRun {
					if err := k.setDrained(cmd.Context(), cluster, func(is []string) []string { return union(is, nodes) }); err != nil {
						return err
					}
				}
				return c.show(r)
			})
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	return cmd
}

func (c *command) newUndrain() *cobra.Command {
	return &cobra.Command{
		Use: "undrain NODE...", Short: "Let drained nodes take part again, also while they are emptied", Args: cobra.MinimumNArgs(1),
		Example: "  kubectl tickmesh undrain demo-node-1",
		RunE: func(cmd *cobra.Command, nodes []string) error {
			name, err := clusterOf(nodes)
			if err != nil {
				return err
			}
			k, err := c.connect(c.access)
			if err != nil {
				return err
			}
			cluster, err := k.cluster(cmd.Context(), []string{name})
			if err != nil {
				return err
			}
			for _, node := range nodes {
				if !slices.Contains(cluster.Spec.Nodes.Drained, node) {
					return fmt.Errorf("%w: %s is not drained", errNode, node)
				}
			}
			err = k.setDrained(cmd.Context(), cluster, func(is []string) []string {
				return slices.DeleteFunc(is, func(node string) bool { return slices.Contains(nodes, node) })
			})
			switch {
			case err != nil:
				return err
			case c.isJSON():
				return display.JSON(c.out, map[string]any{"cluster": cluster.Name, "drained": append([]string{}, cluster.Spec.Nodes.Drained...)})
			}
			_, err = fmt.Fprintf(c.out, "%s: drained are now: %s\n", cluster.Name, orNone(cluster.Spec.Nodes.Drained))
			return err
		},
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return nameList(names)
}

func union(is, more []string) []string {
	for _, node := range more {
		if !slices.Contains(is, node) {
			is = append(is, node)
		}
	}
	return is
}

// conflictsMax bounds how often a change is made anew because somebody else was faster.
const conflictsMax = 8

// setDrained changes which nodes are drained, on whatever others have made of the list.
func (k *Kubernetes) setDrained(ctx context.Context, c *v1alpha1.TickMeshCluster, change func([]string) []string) error {
	var err error
	for range conflictsMax {
		if err = k.API.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		before := c.DeepCopy()
		c.Spec.Nodes.Drained = change(slices.Clone(c.Spec.Nodes.Drained))
		if slices.Equal(before.Spec.Nodes.Drained, c.Spec.Nodes.Drained) {
			return nil
		}
		err = k.API.Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}
