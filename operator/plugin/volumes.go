package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tickmesh "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// volumesReport is what `plan --storage-class --output json` writes.
type volumesReport struct {
	Cluster string   `json:"cluster"`
	Class   string   `json:"storage_class"`
	Nodes   []string `json:"nodes"` // whose volumes would be replaced, in this order
	// Bytes are of the copies on these volumes: they are moved away, and about as many back. What else is used of a
	// disk, which nodes may share with other programs, stays.
	Bytes uint64 `json:"bytes"`
	// SpareNodes are the nodes that would take part for as long as volumes are replaced, at least.
	SpareNodes []string `json:"spare_nodes"`
	Refusal    string   `json:"refusal,omitempty"`
	// WaitsUntil is when the maintenance window opens that this waits for; empty: it does not wait.
	WaitsUntil string `json:"waits_until,omitempty"`
}

// spareNodesMax is how many spare nodes the operator takes (see operator/rollout).
const spareNodesMax = 2

// planVolumes reports what another storage class of a group of nodes would replace.
func (c *command) planVolumes(ctx context.Context, args []string, group, class string) error {
	return c.with(ctx, args, func(k *Kubernetes, cluster *v1alpha1.TickMeshCluster, mesh Mesh) error {
		r, err := forecastVolumes(ctx, k, cluster, mesh, group, class)
		if err != nil {
			return err
		}
		return errors.Join(c.show(r), refused(r.Refusal))
	})
}

// forecastVolumes looks at the claims of the nodes, and asks a router whether the first node could
// be emptied, and with how many spare ones.
func forecastVolumes(ctx context.Context, k *Kubernetes, c *v1alpha1.TickMeshCluster, mesh Mesh, group, class string) (*volumesReport, error) {
	if _, ok := c.Spec.NodesOf(group); !ok {
		return nil, fmt.Errorf("%w: %s", errGroup, group)
	}
	claims, err := outdatedClaims(ctx, k, c, group, class)
	if err != nil {
		return nil, err
	}
	status, err := mesh.Status(ctx, false)
	if err != nil {
		return nil, err
	}
	r := &volumesReport{Cluster: c.Name, Class: class, Nodes: []string{}, SpareNodes: []string{}}
	if m := c.Status.Maintenance; m != nil && !m.Open && m.Until != nil {
		r.WaitsUntil = m.Until.UTC().Format(time.RFC3339)
	}
	for _, node := range slices.Backward(build.NodeNames(c)) {
		if claims[build.ClaimName(node)] {
			r.Nodes = append(r.Nodes, node)
		}
	}
	r.Bytes = bytesOf(status, r.Nodes)
	if len(r.Nodes) == 0 {
		return r, nil
	}
	if r.SpareNodes, r.Refusal, err = spareNodes(ctx, c, mesh, status, r.Nodes[0]); err != nil {
		return nil, err
	}
	return r, nil
}

// outdatedClaims returns which volume claims would be replaced if a group had another storage class.
func outdatedClaims(ctx context.Context, k *Kubernetes, c *v1alpha1.TickMeshCluster, group, class string) (map[string]bool, error) {
	var list corev1.PersistentVolumeClaimList
	if err := k.API.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingLabels(build.Selector(c, build.ComponentNode))); err != nil {
		return nil, fmt.Errorf("list volume claims: %w", err)
	}
	claims := map[string]bool{}
	for i := range list.Items {
		of, _, _ := build.NodeOf(c, build.PodOfClaim(list.Items[i].Name))
		asked, _ := c.Spec.NodesOf(of)
		claims[list.Items[i].Name] = follows(c, of, group) && build.IsClaimOutdated(&list.Items[i], asked.Storage.StorageClassName, v1alpha1.VolumeSpec{StorageClassName: &class})
	}
	return claims, nil
}

// bytesOf returns the bytes of the shards that nodes have copies of with data.
func bytesOf(status *tickmesh.Status, nodes []string) (bytes uint64) {
	for i := range status.ShardStatuses {
		shard := &status.ShardStatuses[i]
		for _, member := range shard.Members {
			if member.Role != "witness" && slices.Contains(nodes, member.Node) {
				bytes += shard.Bytes
			}
		}
	}
	return bytes
}

// spareNodes returns the nodes that have to be added before one can be drained, or why it cannot be with any number that is tried.
func spareNodes(ctx context.Context, c *v1alpha1.TickMeshCluster, mesh Mesh, status *tickmesh.Status, drained string) (spare []string, refusal string, err error) {
	spare = []string{}
	group, _, _ := build.NodeOf(c, drained)
	asked, _ := c.Spec.NodesOf(group)
	for more := range int32(spareNodesMax + 1) {
		wanted, err := resized(c, group, asked.Count+more)
		if err != nil {
			return nil, "", err
		}
		change := scaled(wanted, status)
		change.Drained = append(change.Drained, drained)
		forecast, err := mesh.Forecast(ctx, change)
		if err != nil {
			return nil, "", err
		}
		if refusal = forecast.Refusal; refusal == "" {
			for i := range more {
				spare = append(spare, build.NodeName(c, group, int(asked.Count+i)))
			}
			break
		}
	}
	return spare, refusal, nil
}

// follows reports whether the volumes of a group have the storage class that is asked for of another one, or
// of itself: those of spec.nodeGroups without a class have that of spec.nodes.
func follows(c *v1alpha1.TickMeshCluster, group, other string) bool {
	if group == other {
		return true
	}
	own := slices.ContainsFunc(c.Spec.NodeGroups, func(g v1alpha1.NodeGroup) bool {
		return g.Name == group && g.Storage != nil && g.Storage.StorageClassName != nil
	})
	return other == "" && !own
}

func (r *volumesReport) write(w io.Writer) error {
	if len(r.Nodes) == 0 {
		_, err := fmt.Fprintf(w, "%s: all nodes have volumes of storage class %s\n", r.Cluster, r.Class)
		return err
	}
	fmt.Fprintf(w, "%s: %d volumes would be replaced by ones of storage class %s, one at a time: %s\n", r.Cluster, len(r.Nodes), r.Class, strings.Join(r.Nodes, ", "))
	if r.WaitsUntil != "" {
		fmt.Fprintf(w, "It waits for the maintenance window, which opens at %s\n", r.WaitsUntil)
	}
	if len(r.SpareNodes) > 0 {
		fmt.Fprintf(w, "No node can be emptied without another one: %s would take part meanwhile, and machines for that have to be there\n", strings.Join(r.SpareNodes, ", "))
	}
	_, err := fmt.Fprintf(w, "Each is emptied before and filled after that: about %s move away, and as many back\n", display.Bytes(r.Bytes))
	return err
}
