package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/settings"
)

// statusReport is what `tickmesh status --output json` writes.
type statusReport struct {
	*client.Status
	NodesAlive int `json:"nodes_alive"`
	Leaderless int `json:"shards_without_leader"`
}

func newStatusCommand() *cobra.Command {
	var o settings.Output
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		status, err := c.Status(cmd.Context(), false)
		if err != nil {
			return err
		}
		report := statusReport{Status: status}
		for _, n := range status.Nodes {
			if n.Alive {
				report.NodesAlive++
			}
		}
		for _, shard := range status.ShardStatuses {
			if shard.Leader == "" {
				report.Leaderless++
			}
		}
		status.ShardStatuses = nil // `tickmesh shards` has them
		if o.IsJSON() {
			return display.JSON(cmd.OutOrStdout(), report)
		}
		return report.write(cmd.OutOrStdout())
	}}
	cmd := s.prepare(&cobra.Command{
		Use: "status", Short: "Say how the cluster is", Args: cobra.NoArgs,
		Example: "  tickmesh status\n  tickmesh status --addr router-1:6183,router-2:6183 --output json",
	})
	o.Define(cmd.Flags())
	return cmd
}

func (r *statusReport) write(w io.Writer) error {
	store := "reachable"
	if !r.StoreReachable {
		store = "not reachable: nothing can move"
	}
	for _, row := range [][2]string{
		{"Cluster", r.Cluster},
		{"Nodes", fmt.Sprintf("%d, %d alive", len(r.Nodes), r.NodesAlive)},
		{"Shards", fmt.Sprintf("%d in %s, %d without a leader", r.Shards, copiesOfEach(r.Replication), r.Leaderless)},
		{"Map", "epoch " + strconv.FormatUint(r.MapEpoch, 10)},
		{"Store", store},
		{"Moves", movesAhead(len(r.Moves), &r.MovesAhead)},
	} {
		fmt.Fprintf(w, "%-9s %s\n", row[0], row[1])
	}
	if len(r.Moves) > 0 {
		fmt.Fprintln(w)
		if err := writeMoves(w, r.Moves); err != nil {
			return err
		}
	}
	for _, problem := range r.Problems {
		fmt.Fprintln(w, "\nProblem: "+problem)
	}
	return nil
}

func copiesOfEach(n uint32) string {
	if n == 1 {
		return "1 copy"
	}
	return strconv.FormatUint(uint64(n), 10) + " copies"
}

// movesAhead returns in a line what moves and what is left of it.
func movesAhead(underWay int, a *client.Ahead) string {
	return display.MovesAhead(underWay, int(a.Moves), a.DoneBytes, a.TotalBytes, a.RemainingMs)
}

func writeMoves(w io.Writer, moves []client.Move) error {
	var rows [][]string
	for _, m := range moves {
		pace, remaining := "-", "-"
		if m.BytesPerSecond > 0 {
			pace = display.Bytes(m.BytesPerSecond) + "/s"
		}
		if m.RemainingMs > 0 {
			remaining = display.Time(m.RemainingMs)
		}
		rows = append(rows, []string{
			strconv.Itoa(int(m.Shard)), display.OrDash(m.FromNode), m.ToNode, display.OrDash(m.Phase), display.Bytes(m.DoneBytes), display.Bytes(m.TotalBytes), pace, remaining,
		})
	}
	return display.Table(w, "SHARD FROM TO PHASE DONE TOTAL PACE REMAINING", rows)
}
