package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// errNoWindows marks a cluster whose pods wait for no maintenance window.
var errNoWindows = errors.New("it has no maintenance windows, and restarts pods at any time")

func (c *command) newMaintain() *cobra.Command {
	length, stop := time.Duration(0), false
	cmd := &cobra.Command{
		Use: "maintain [CLUSTER]", Short: "Let restarts begin now that wait for a maintenance window", Args: cobra.MaximumNArgs(1),
		Long: `Lets the operator restart pods for a while outside the maintenance windows of a cluster, by the annotation
tickmesh.dev/maintain-until. What has not been restarted then waits for the next window.`,
		Example: "  kubectl tickmesh maintain demo --for 2h\n  kubectl tickmesh maintain demo --stop",
		RunE: func(cmd *cobra.Command, names []string) error {
			if length <= 0 && !stop {
				return errors.New("--for: expected a length of time, as 2h")
			}
			k, cluster, err := c.find(cmd.Context(), names)
			if err != nil {
				return err
			}
			until := ""
			if !stop {
				until = time.Now().Add(length).UTC().Format(time.RFC3339)
			}
			return c.setMaintainUntil(cmd.Context(), k, cluster, until)
		},
	}
	cmd.Flags().DurationVar(&length, "for", time.Hour, "how long restarts may begin")
	cmd.Flags().BoolVar(&stop, "stop", false, "let them wait for the next window again")
	return cmd
}

// setMaintainUntil writes the annotation, or takes it away if it is to be empty, and nothing else.
func (c *command) setMaintainUntil(ctx context.Context, k *Kubernetes, cluster *v1alpha1.TickMeshCluster, until string) error {
	if m := cluster.Spec.Maintenance; m == nil || len(m.Windows) == 0 {
		return fmt.Errorf("%s: %w", cluster.Name, errNoWindows)
	}
	before := cluster.DeepCopy()
	if until == "" {
		delete(cluster.Annotations, v1alpha1.AnnotationMaintainUntil)
	} else {
		if cluster.Annotations == nil {
			cluster.Annotations = map[string]string{}
		}
		cluster.Annotations[v1alpha1.AnnotationMaintainUntil] = until
	}
	if err := k.API.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("change the cluster %s: %w", cluster.Name, err)
	}
	if c.isJSON() {
		return display.JSON(c.out, map[string]any{"cluster": cluster.Name, "maintain_until": until})
	}
	text := cluster.Name + ": restarts wait for the maintenance windows"
	if until != "" {
		text = cluster.Name + ": restarts that wait may begin until " + until
	}
	_, err := fmt.Fprintln(c.out, text)
	return err
}
