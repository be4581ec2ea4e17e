package plugin

import (
	"context"

	"github.com/spf13/cobra"

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
	set := func(s *v1alpha1.TickMeshClusterSpec) { s.Hibernated = hibernated }
	return c.change(ctx, names, set, map[string]any{"hibernated": hibernated}, hibernatedText)
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
