package plugin

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

func (c *command) newPause() *cobra.Command {
	return &cobra.Command{
		Use: "pause [CLUSTER]", Short: "Stop the operator from changing a cluster", Args: cobra.MaximumNArgs(1),
		Long: `Stops the operator from changing a cluster, by spec.paused: nothing that the spec asks for is done, and no
lost node is replaced. Certificates are renewed, and pods that are made anew start.`,
		Example: "  kubectl tickmesh pause demo",
		RunE:    func(cmd *cobra.Command, names []string) error { return c.setPaused(cmd.Context(), names, true) },
	}
}

func (c *command) newResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume [CLUSTER]", Short: "Let the operator change a cluster again", Args: cobra.MaximumNArgs(1),
		Example: "  kubectl tickmesh resume demo",
		RunE:    func(cmd *cobra.Command, names []string) error { return c.setPaused(cmd.Context(), names, false) },
	}
}

// setPaused writes spec.paused of the cluster that the arguments name, and nothing else.
func (c *command) setPaused(ctx context.Context, names []string, paused bool) error {
	set := func(s *v1alpha1.TickMeshClusterSpec) { s.Paused = paused }
	return c.change(ctx, names, set, map[string]any{"paused": paused}, pausedText)
}

// change writes what set sets in the spec of the cluster that the arguments name, and nothing else. It prints the text, or as
// JSON the name of the cluster and what is set.
func (c *command) change(ctx context.Context, names []string, set func(*v1alpha1.TickMeshClusterSpec), told map[string]any, text func(*v1alpha1.TickMeshCluster) string) error {
	k, cluster, err := c.find(ctx, names)
	if err != nil {
		return err
	}
	before := cluster.DeepCopy()
	set(&cluster.Spec)
	if err := k.API.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("change the cluster %s: %w", cluster.Name, err)
	}
	if c.isJSON() {
		told["cluster"] = cluster.Name
		return display.JSON(c.out, told)
	}
	_, err = fmt.Fprintln(c.out, text(cluster))
	return err
}

func pausedText(c *v1alpha1.TickMeshCluster) string {
	if c.Spec.Paused {
		return c.Name + " is paused: the operator changes nothing, and replaces nothing that is lost"
	}
	return c.Name + " is not paused: the operator changes what is to be changed"
}
