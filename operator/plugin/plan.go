package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	tickmesh "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// planReport is what `plan --output json` writes.
type planReport struct {
	Cluster string   `json:"cluster"`
	Before  int32    `json:"nodes_before"`
	After   int32    `json:"nodes_after"`
	Drained []string `json:"drained"`
	Added   []string `json:"added"`
	*tickmesh.Forecast
	// AtRisk are shards that would stop, now already, if one more voter were lost.
	AtRisk []uint32 `json:"shards_at_risk"`
}

func (c *command) newPlan() *cobra.Command {
	var replicas int32
	var drained []string
	var image, class, group string
	cmd := &cobra.Command{
		Use: "plan [CLUSTER]", Short: "Say what another number of nodes, a drain, another image or storage class would change", Args: cobra.MaximumNArgs(1),
		Long: `Says what another number of nodes, or a drain, would move: how many copies, how many bytes, how
long it should take, and whether it is safe; or in what order pods would be restarted for another
image, or what volumes would be replaced for another storage class. Nothing is changed. It fails when the change would be refused, with the reason.`,
		Example: "  kubectl tickmesh plan --image tickmesh:0.2.0\n  kubectl tickmesh plan --replicas 5\n  kubectl tickmesh plan --replicas 2 --group arm\n  kubectl tickmesh plan demo --drain demo-node-1\n  kubectl tickmesh plan --storage-class fast",
		RunE: func(cmd *cobra.Command, args []string) error {
			flags := cmd.Flags()
			switch {
			case flags.Changed("storage-class") && (replicas > 0 || len(drained) > 0 || image != ""):
				return errors.New("plan --storage-class alone: one change after the other")
			case flags.Changed("storage-class"):
				return c.planVolumes(cmd.Context(), args, group, class)
			case image != "" && (replicas > 0 || len(drained) > 0):
				return errors.New("plan --image alone: one change after the other")
			case image != "":
				return c.planImage(cmd.Context(), args, image)
			case !flags.Changed("replicas") && len(drained) == 0:
				return errors.New("plan what? --replicas or --drain says it, or --image or --storage-class")
			case replicas < 0 || flags.Changed("replicas") && replicas == 0 && group == "":
				return errors.New("plan --replicas: expected at least 1, or 0 with --group")
			}
			if _, err := clusterOf(drained); err != nil {
				return err
			}
			return c.with(cmd.Context(), args, func(_ *Kubernetes, cluster *v1alpha1.TickMeshCluster, mesh Mesh) error {
				wanted := cluster
				if flags.Changed("replicas") {
					var err error
					if wanted, err = resized(cluster, group, replicas); err != nil {
						return err
					}
				}
				r, err := forecast(cmd.Context(), cluster, wanted, mesh, drained)
				if err != nil {
					return err
				}
				return errors.Join(c.show(r), r.problem())
			})
		},
	}
	cmd.Flags().Int32Var(&replicas, "replicas", 0, "`nodes` that there would be (default: as many as now)")
	cmd.Flags().StringVar(&group, "group", "", "`group` of nodes that --replicas or --storage-class is about, of spec.nodeGroups (default: that of spec.nodes)")
	cmd.Flags().StringVar(&image, "image", "", "`image` of TickMesh that there would be")
	cmd.Flags().StringVar(&class, "storage-class", "", "`class` that the volumes of the nodes would have")
	cmd.Flags().StringSliceVar(&drained, "drain", nil, "`nodes` that would be emptied, with commas between")
	return cmd
}

// forecast asks a router what it would do if the spec of a cluster asked for the nodes of another.
func forecast(ctx context.Context, c, wanted *v1alpha1.TickMeshCluster, mesh Mesh, drained []string) (*planReport, error) {
	if wanted.Spec.NodeCount() < c.Spec.Replication {
		return nil, fmt.Errorf("%w: %d copies of each shard need at least %d nodes", errRefused, c.Spec.Replication, c.Spec.Replication)
	}
	status, err := mesh.Status(ctx, false)
	if err != nil {
		return nil, err
	}
	change := scaled(wanted, status)
	for _, node := range drained {
		if !slices.Contains(change.Drained, node) {
			change.Drained = append(change.Drained, node)
		}
	}
	r := &planReport{Cluster: c.Name, Before: c.Spec.NodeCount(), After: wanted.Spec.NodeCount(), Drained: append([]string{}, change.Drained...), Added: []string{}, AtRisk: atRisk(status)}
	for _, n := range change.Added {
		r.Added = append(r.Added, n.Node)
	}
	r.Forecast, err = mesh.Forecast(ctx, change)
	return r, err
}

// problem is why the change would be refused; nil: it would not.
func (r *planReport) problem() error { return refused(r.Refusal) }

func (r *planReport) write(w io.Writer) error {
	fmt.Fprintf(w, "%s: %d nodes now, %d then", r.Cluster, r.Before, r.After)
	if len(r.Drained) > 0 {
		fmt.Fprintf(w, "; emptied: %s", nameList(r.Drained))
	}
	if len(r.Added) > 0 {
		fmt.Fprintf(w, "; new: %s", nameList(r.Added))
	}
	copies := 0
	for _, m := range r.Moves {
		if m.TotalBytes > 0 {
			copies++
		}
	}
	fmt.Fprintf(w, "\nMoves: %d, %d of them with data, %s", len(r.Moves), copies, display.Bytes(r.TotalBytes))
	if r.DurationMs > 0 {
		fmt.Fprintf(w, ", about %s", display.Time(r.DurationMs))
	}
	fmt.Fprintf(w, "\nNow: %s\n", riskText(r.AtRisk))
	fmt.Fprintln(w, "Meanwhile: as now, since new copies have votes before the old ones go")
	switch {
	case r.UnderReplicated > 0:
		fmt.Fprintf(w, "Then: %d shards would have too few copies\n", r.UnderReplicated)
	case r.WithoutWitness > 0:
		fmt.Fprintf(w, "Then: %d shards would have no witness, and stop when a node is lost\n", r.WithoutWitness)
	default:
		fmt.Fprintln(w, "Then: every shard has all of its copies")
	}
	if len(r.Moves) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return writeTable(w, "NODE GETS BYTES", r.rows())
}

// rows sums the moves up by the nodes that they lead to.
func (r *planReport) rows() (rows [][]string) {
	type sum struct {
		moves int
		bytes uint64
	}
	sums, names := map[string]sum{}, []string{}
	for _, m := range r.Moves {
		s, known := sums[m.ToNode]
		if !known {
			names = append(names, m.ToNode)
		}
		sums[m.ToNode] = sum{s.moves + 1, s.bytes + m.TotalBytes}
	}
	slices.SortFunc(names, compareNodes)
	for _, name := range names {
		rows = append(rows, []string{name, strconv.Itoa(sums[name].moves), display.Bytes(sums[name].bytes)})
	}
	return rows
}

func nameList(names []string) string {
	shown := names[:min(len(names), shownMax)]
	text := ""
	for i, name := range shown {
		if i > 0 {
			text += ", "
		}
		text += name
	}
	if len(names) > shownMax {
		text += fmt.Sprintf(" and %d more", len(names)-shownMax)
	}
	return text
}
