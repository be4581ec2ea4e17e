package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/upgrade"
)

// upgradeReport is what `plan --image --output json` writes.
type upgradeReport struct {
	Cluster string        `json:"cluster"`
	Running string        `json:"running"` // versions, with commas between
	Image   string        `json:"image"`
	Steps   []restartStep `json:"steps"`
	Refusal string        `json:"refusal,omitempty"`
	// WaitsUntil is when the maintenance window opens that this waits for; empty: it does not wait.
	WaitsUntil string `json:"waits_until,omitempty"`
}

// planImage reports what another image would restart.
func (c *command) planImage(ctx context.Context, args []string, image string) error {
	k, err := c.connect(c.access)
	if err != nil {
		return err
	}
	cluster, err := k.cluster(ctx, args)
	if err != nil {
		return err
	}
	r := planUpgrade(cluster, image)
	return errors.Join(c.show(r), refused(r.Refusal))
}

// planUpgrade returns what another image would restart, as the status tells of the cluster.
func planUpgrade(c *v1alpha1.TickMeshCluster, image string) *upgradeReport {
	r := &upgradeReport{Cluster: c.Name, Running: c.Status.Version, Image: image}
	if err := upgrade.CheckVersions(append(strings.Split(c.Status.Version, ","), c.Status.NewestVersion), image, c.Annotations[v1alpha1.AnnotationAllowVersion]); err != nil {
		r.Refusal = err.Error()
		return r
	}
	if m := c.Status.Maintenance; m != nil && !m.Open && m.Until != nil {
		r.WaitsUntil = m.Until.UTC().Format(time.RFC3339)
	}
	var components []string
	if c.Status.Etcd != nil {
		components = append(components, build.ComponentEtcd)
	}
	r.Steps = restartSteps(c, append(components, build.ComponentNode, build.ComponentRouter))
	return r
}

func (r *upgradeReport) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: %s now, %s then\n", r.Cluster, r.Running, r.Image)
	if r.Refusal != "" || err != nil {
		return err
	}
	if r.WaitsUntil != "" {
		fmt.Fprintf(w, "It waits for the maintenance window, which opens at %s. ", r.WaitsUntil)
	}
	fmt.Fprintln(w, "In this order, each when the one before is ready:")
	return writeSteps(w, r.Steps)
}
