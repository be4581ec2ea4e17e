package plugin

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

func (c *command) newHibernate() *cobra.Command {
	return &cobra.Command{
		Use: "hibernate [CLUSTER]", Short: "Stop all pods of a cluster, and keep its volumes", Args: cobra.MaximumNArgs(1),
		Long: `Has a cluster sleep, by spec.hibernated: Envoy, routers, nodes and etcd stop in this order, each when no pod
of the one before is left. Volumes stay, and backups are not made meanwhile; one that runs ends first.`,
		Example: "  kubectl tickmesh hibernate demo",
		RunE:    func(cmd *cobra.Command, names []string) error { return c.setHibernated(cmd.Context(), names, true) },
	}
}

func (c *command) newWake() *cobra.Command {
	return &cobra.Command{
		Use: "wake [CLUSTER]", Short: "Bring back a cluster that hibernates", Args: cobra.MaximumNArgs(1),
		Example: "  kubectl tickmesh wake demo",
		RunE:    func(cmd *cobra.Command, names []string) error { return c.setHibernated(cmd.Context(), names, false) },
	}
}

// setHibernated writes spec.hibernated of the cluster that the arguments name, and nothing else.
func (c *command) setHibernated(ctx context.Context, names []string, hibernated bool) error {
	k, cluster, err := c.find(ctx, names)
	if err != nil {
		return err
	}
	before := cluster.DeepCopy()
	cluster.Spec.Hibernated = hibernated
	if err := k.API.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("change the cluster %s: %w", cluster.Name, err)
	}
	if c.isJSON() {
		return display.JSON(c.out, map[string]any{"cluster": cluster.Name, "hibernated": hibernated})
	}
	_, err = fmt.Fprintln(c.out, hibernatedText(cluster))
	return err
}

func hibernatedText(c *v1alpha1.TickMeshCluster) string {
	text := c.Name + " wakes: etcd, nodes, routers and Envoy start in this order"
	if c.Spec.Hibernated {
		text = c.Name + " goes to sleep: Envoy, routers, nodes and etcd stop in this order, and volumes are kept"
	}
	if c.Spec.Paused {
		text += "; the cluster is paused, and this begins when it is resumed"
	}
	return text
}
