package plugin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// restartReport is what `restart --output json` writes.
type restartReport struct {
	Cluster string        `json:"cluster"`
	Word    string        `json:"restart"` // value of the annotations
	Steps   []restartStep `json:"steps"`
	Paused  bool          `json:"paused"`
}

func (c *command) newRestart() *cobra.Command {
	var chosen []string
	cmd := &cobra.Command{
		Use: "restart [CLUSTER]", Short: "Restart the pods of a cluster as an upgrade does, one at a time", Args: cobra.MaximumNArgs(1),
		Long: `Has the operator restart the pods of a cluster, by the annotations tickmesh.dev/restart-COMPONENT: nodes and
members of etcd one at a time, and a node only when no shard would be short of its majority or of
its last complete copy; routers and Envoy get new pods before the old ones end. The command returns
at once; status shows how far it is.`,
		Example: "  kubectl tickmesh restart demo\n  kubectl tickmesh restart demo --component node",
		RunE: func(cmd *cobra.Command, names []string) error {
			k, cluster, err := c.find(cmd.Context(), names)
			if err != nil {
				return err
			}
			components, err := componentsOf(cluster, chosen)
			if err != nil {
				return err
			}
			r := &restartReport{Cluster: cluster.Name, Word: time.Now().UTC().Format(time.RFC3339Nano), Steps: restartSteps(cluster, components), Paused: cluster.Spec.Paused}
			if err := k.restart(cmd.Context(), cluster, components, r.Word); err != nil {
				return err
			}
			if c.isJSON() {
				return display.JSON(c.out, r)
			}
			return r.write(c.out)
		},
	}
	cmd.Flags().StringSliceVar(&chosen, "component", nil, "`components` to restart, with commas between: etcd, node, router, envoy (default: all)")
	return cmd
}

// componentsOf returns the components that are to be restarted, in their order.
func componentsOf(c *v1alpha1.TickMeshCluster, chosen []string) ([]string, error) {
	has := build.Restartable(c)
	if len(chosen) == 0 {
		return has, nil
	}
	for _, component := range chosen {
		if !slices.Contains(has, component) {
			return nil, fmt.Errorf("--component %s: the cluster %s has %s", component, c.Name, strings.Join(has, ", "))
		}
	}
	return slices.DeleteFunc(has, func(component string) bool { return !slices.Contains(chosen, component) }), nil
}

// restart writes the annotations, and nothing else.
func (k *Kubernetes) restart(ctx context.Context, c *v1alpha1.TickMeshCluster, components []string, word string) error {
	before := c.DeepCopy()
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	for _, component := range components {
		c.Annotations[v1alpha1.AnnotationRestart+component] = word
	}
	if err := k.API.Patch(ctx, c, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("change the cluster %s: %w", c.Name, err)
	}
	return nil
}

func (r *restartReport) write(w io.Writer) error {
	when := "In this order, each when the one before is ready:"
	if r.Paused {
		when = "The cluster is paused. When it is resumed, in this order, each when the one before is ready:"
	}
	if _, err := fmt.Fprintf(w, "%s is restarted. %s\n", r.Cluster, when); err != nil {
		return err
	}
	return writeSteps(w, r.Steps)
}
