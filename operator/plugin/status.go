package plugin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tickmesh "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// statusReport is what `status --output json` writes.
type statusReport struct {
	Namespace  string                `json:"namespace"`
	Cluster    string                `json:"cluster"`
	Phase      v1alpha1.Phase        `json:"phase"`
	Nodes      int32                 `json:"nodes"` // that are wanted
	ReadyNodes int32                 `json:"ready_nodes"`
	Conditions []metav1.Condition    `json:"conditions"`
	Drained    []string              `json:"drained"`
	Machines   []v1alpha1.NodeStatus `json:"node_statuses"`
	// Groups are those of nodes beside that of spec.nodes.
	Groups []v1alpha1.NodeGroupStatus `json:"node_groups,omitempty"`
	// Mesh is the answer of a router; nil: none answers, and Unreachable is the reason.
	Mesh        *tickmesh.Status `json:"mesh,omitempty"`
	Unreachable string           `json:"unreachable,omitempty"`
	// AtRisk are shards that would stop if one more of their voters were lost.
	AtRisk []uint32 `json:"shards_at_risk"`
}

func (c *command) newStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status [CLUSTER]", Short: "Say how a cluster is, and what moves", Args: cobra.MaximumNArgs(1),
		Example: "  kubectl tickmesh status\n  kubectl tickmesh status demo -n metrics -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := c.connect(c.access)
			if err != nil {
				return err
			}
			cluster, err := k.cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			r := reportOf(cluster)
			if err := r.ask(cmd.Context(), k, cluster); err != nil {
				r.Unreachable = err.Error() // what Kubernetes knows is worth showing
			}
			if c.isJSON() {
				return display.JSON(c.out, r)
			}
			return r.write(c.out)
		},
	}
}

func reportOf(c *v1alpha1.TickMeshCluster) *statusReport {
	return &statusReport{
		Namespace: c.Namespace, Cluster: c.Name, Phase: c.Status.Phase, Nodes: c.Spec.NodeCount(), ReadyNodes: c.Status.ReadyNodes,
		Conditions: append([]metav1.Condition{}, c.Status.Conditions...), Drained: append([]string{}, c.Spec.Nodes.Drained...),
		Machines: append([]v1alpha1.NodeStatus{}, c.Status.NodeStatuses...), AtRisk: []uint32{}, Groups: c.Status.NodeGroups,
	}
}

// ask reads the state of the shards from a router.
func (r *statusReport) ask(ctx context.Context, k *Kubernetes, c *v1alpha1.TickMeshCluster) error {
	mesh, err := k.Dial(ctx, c)
	if err != nil {
		return err
	}
	defer mesh.Close()
	if r.Mesh, err = mesh.Status(ctx, false); err != nil {
		return err
	}
	r.AtRisk = atRisk(r.Mesh)
	r.Mesh.ShardStatuses = nil // thousands; `tickmesh shards` has them
	return nil
}

// atRisk returns the shards that would stop if one more of their voters were lost. With
// one copy that is all of them, and meant so.
func atRisk(s *tickmesh.Status) []uint32 {
	shards := []uint32{}
	for i := range s.ShardStatuses {
		if s.ShardStatuses[i].LossesSurvived == 0 && s.Replication > 1 {
			shards = append(shards, s.ShardStatuses[i].Shard)
		}
	}
	return shards
}

func (r *statusReport) write(w io.Writer) error {
	fmt.Fprintf(w, "%s/%s: %s, %d of %d nodes ready\n\n", r.Namespace, r.Cluster, r.Phase, r.ReadyNodes, r.Nodes)
	for _, g := range r.Groups {
		fmt.Fprintf(w, "Group %s: %d of %d nodes ready\n", g.Name, g.ReadyNodes, g.WantedNodes)
	}
	if len(r.Groups) > 0 {
		fmt.Fprintln(w)
	}
	var rows [][]string
	for _, c := range r.Conditions {
		rows = append(rows, []string{c.Type, string(c.Status), c.Reason, c.Message})
	}
	if err := writeTable(w, "CONDITION STATUS REASON MESSAGE", rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := writeTable(w, nodesHeading, r.nodeRows()); err != nil {
		return err
	}
	if r.Mesh == nil {
		_, err := fmt.Fprintf(w, "\nNo router answers: %s\n", r.Unreachable)
		return err
	}
	fmt.Fprintf(w, "\nShards: %d in %d copies; %s\n", r.Mesh.Shards, r.Mesh.Replication, riskText(r.AtRisk))
	fmt.Fprintln(w, "Moves: "+movesText(r.Mesh))
	if len(r.Mesh.Moves) > 0 {
		fmt.Fprintln(w)
		if err := writeMoves(w, r.Mesh.Moves); err != nil {
			return err
		}
	}
	for _, problem := range r.Mesh.Problems {
		fmt.Fprintln(w, "\nProblem: "+problem)
	}
	return nil
}

func riskText(shards []uint32) string {
	if len(shards) == 0 {
		return "each survives the loss of a node"
	}
	return fmt.Sprintf("%d would stop if one more node were lost: %s", len(shards), shardList(shards))
}

const nodesHeading = "NODE MACHINE ZONE DESIRED ALIVE LEADS COPIES WITNESSES JOINING USED OF VERSION WRITES"

// nodeRows joins what Kubernetes and what a router says of the nodes.
func (r *statusReport) nodeRows() (rows [][]string) {
	machines, seen := map[string]v1alpha1.NodeStatus{}, map[string]bool{}
	for _, n := range r.Machines {
		machines[n.Name] = n
	}
	if r.Mesh != nil {
		for i := range r.Mesh.Nodes {
			n := &r.Mesh.Nodes[i]
			seen[n.Node] = true
			writes := "yes"
			if n.Refusal != "" {
				writes = "no: " + n.Refusal
			}
			rows = append(rows, []string{
				n.Node, machines[n.Node].Machine, n.Zone, n.Desired, yesNo(n.Alive), strconv.Itoa(int(n.Leads)), strconv.Itoa(int(n.FullReplicas)),
				strconv.Itoa(int(n.Witnesses)), strconv.Itoa(int(n.Learners)), display.Bytes(n.UsedBytes), display.Bytes(n.CapacityBytes), n.Version, writes,
			})
		}
	}
	for _, n := range r.Machines {
		if !seen[n.Name] {
			rows = append(rows, []string{n.Name, n.Machine, n.Zone, n.Desired, yesNo(n.Alive), "", "", "", "", "", "", n.Version, ""})
		}
	}
	slices.SortStableFunc(rows, func(a, b []string) int { return compareNodes(a[0], b[0]) })
	return rows
}

// compareNodes puts node 9 before node 10.
func compareNodes(a, b string) int {
	clusterA, groupA, ordinalA, okA := splitNode(a)
	clusterB, groupB, ordinalB, okB := splitNode(b)
	if okA && okB && clusterA == clusterB {
		return cmp.Or(strings.Compare(groupA, groupB), ordinalA-ordinalB)
	}
	return strings.Compare(a, b)
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// movesText returns in a line what moves and what is left of it.
func movesText(s *tickmesh.Status) string {
	a := &s.MovesAhead
	return display.MovesAhead(len(s.Moves), int(a.Moves), a.DoneBytes, a.TotalBytes, a.RemainingMs)
}

func writeMoves(w io.Writer, moves []tickmesh.Move) error {
	var rows [][]string
	for _, m := range moves {
		pace, remaining := "", ""
		if m.BytesPerSecond > 0 {
			pace = display.Bytes(m.BytesPerSecond) + "/s"
		}
		if m.RemainingMs > 0 {
			remaining = display.Time(m.RemainingMs)
		}
		rows = append(rows, []string{strconv.Itoa(int(m.Shard)), m.FromNode, m.ToNode, m.Phase, display.Bytes(m.DoneBytes), display.Bytes(m.TotalBytes), pace, remaining})
	}
	return writeTable(w, "SHARD FROM TO PHASE DONE TOTAL PACE REMAINING", rows)
}
