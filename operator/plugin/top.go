package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	tickmesh "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

const (
	intervalDefault = 2 * time.Second
	intervalMin     = 200 * time.Millisecond
	// clearScreen begins the terminal's screen anew (ECMA-48).
	clearScreen = "\x1b[H\x1b[2J"
)

func (c *command) newTop() *cobra.Command {
	var interval time.Duration
	var once bool
	cmd := &cobra.Command{
		Use: "top [CLUSTER]", Short: "Show the nodes and the moves, again and again", Args: cobra.MaximumNArgs(1),
		Example: "  kubectl tickmesh top demo\n  kubectl tickmesh top --once -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if interval < intervalMin {
				return fmt.Errorf("--interval %v: expected at least %v", interval, intervalMin)
			}
			return c.with(cmd.Context(), args, func(_ *Kubernetes, cluster *v1alpha1.TickMeshCluster, mesh Mesh) error {
				return c.top(cmd.Context(), cluster, mesh, interval, once)
			})
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", intervalDefault, "time between two looks")
	cmd.Flags().BoolVar(&once, "once", false, "look once")
	return cmd
}

// top shows the cluster until the context ends.
func (c *command) top(ctx context.Context, cluster *v1alpha1.TickMeshCluster, mesh Mesh, interval time.Duration, once bool) error {
	for {
		status, err := mesh.Status(ctx, true)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the person has seen enough
		}
		if once && err != nil {
			return err
		}
		var screen bytes.Buffer
		if !once && !c.isJSON() {
			screen.WriteString(clearScreen)
		}
		switch {
		case err != nil:
			fmt.Fprintf(&screen, "%s: no router answers: %v\n", cluster.Name, err)
		case c.isJSON():
			err = display.JSON(&screen, status)
		default:
			err = writeTop(&screen, cluster.Name, status)
		}
		if _, failed := c.out.Write(screen.Bytes()); failed != nil || once {
			return errors.Join(err, failed)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

func writeTop(w *bytes.Buffer, name string, s *tickmesh.Status) error {
	alive := 0
	var rows [][]string
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Alive {
			alive++
		}
		full := ""
		if n.CapacityBytes > 0 {
			full = fmt.Sprintf("%.0f %%", float64(n.UsedBytes)/float64(n.CapacityBytes)*100)
		}
		rows = append(rows, []string{
			n.Node, n.Zone, n.Desired, yesNo(n.Alive), strconv.Itoa(int(n.Leads)), strconv.Itoa(int(n.FullReplicas)), strconv.Itoa(int(n.Witnesses)),
			strconv.Itoa(int(n.Learners)), display.Bytes(n.UsedBytes), full, n.Refusal,
		})
	}
	fmt.Fprintf(w, "%s: %d of %d nodes alive, %d shards in %d copies, moves: %s\n\n", name, alive, len(s.Nodes), s.Shards, s.Replication, movesText(s))
	if err := writeTable(w, "NODE ZONE DESIRED ALIVE LEADS COPIES WITNESSES JOINING USED FULL REFUSES", rows); err != nil {
		return err
	}
	if len(s.Moves) > 0 {
		fmt.Fprintln(w)
		if err := writeMoves(w, s.Moves); err != nil {
			return err
		}
	}
	for _, problem := range s.Problems {
		fmt.Fprintln(w, "\nProblem: "+problem)
	}
	return nil
}
