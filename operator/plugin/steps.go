package plugin

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// restartStep is one component whose pods are restarted.
type restartStep struct {
	Component string   `json:"component"`
	Pods      []string `json:"pods,omitempty"` // in the order in which they are restarted; of Deployments unknown
}

// writeSteps writes a line for each component, in order.
func writeSteps(w io.Writer, steps []restartStep) (err error) {
	for _, s := range steps {
		switch {
		case s.Component == build.ComponentRouter || s.Component == build.ComponentEnvoy:
			_, err = fmt.Fprintf(w, "  %s: new pods beside the old ones\n", s.Component)
		case len(s.Pods) == 0: // the status does not tell of them yet
			_, err = fmt.Fprintf(w, "  %s: one at a time\n", s.Component)
		default:
			_, err = fmt.Fprintf(w, "  %s: one at a time, as %s\n", s.Component, strings.Join(s.Pods, ", "))
		}
	}
	return err
}

// restartSteps returns what is restarted, as the status tells of the cluster.
func restartSteps(c *v1alpha1.TickMeshCluster, components []string) []restartStep {
	steps := make([]restartStep, 0, len(components))
	for _, component := range components {
		step := restartStep{Component: component}
		switch component {
		case build.ComponentEtcd:
			if c.Status.Etcd != nil {
				for i := range c.Status.Etcd.Members {
					step.Pods = append(step.Pods, c.Status.Etcd.Members[i].Name)
				}
			}
		case build.ComponentNode:
			for i := range c.Status.NodeStatuses {
				step.Pods = append(step.Pods, c.Status.NodeStatuses[i].Name)
			}
		}
		slices.Reverse(step.Pods)
		steps = append(steps, step)
	}
	return steps
}
