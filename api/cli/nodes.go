package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/settings"
)

func newNodesCommand() *cobra.Command {
	var o settings.Output
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		status, err := c.Status(cmd.Context(), true)
		if err != nil {
			return err
		}
		if o.IsJSON() {
			return display.JSON(cmd.OutOrStdout(), status.Nodes)
		}
		var rows [][]string
		for i := range status.Nodes {
			rows = append(rows, nodeRow(&status.Nodes[i]))
		}
		return display.Table(cmd.OutOrStdout(), "NODE STATE ADDRESS ZONE LEADS FULL WITNESS LEARNER USED DISK VERSION WRITES", rows)
	}}
	cmd := s.prepare(&cobra.Command{Use: "nodes", Short: "List the nodes", Args: cobra.NoArgs})
	o.Define(cmd.Flags())
	return cmd
}

func nodeRow(n *client.Node) []string {
	state := n.Desired
	if !n.Alive {
		state += ", dead for " + display.Time(n.DeadMs)
	}
	writes := "ok"
	if n.Refusal != "" {
		writes = n.Refusal
	}
	count := func(v uint32) string { return strconv.Itoa(int(v)) }
	return []string{
		n.Node, state, display.OrDash(n.Address), display.OrDash(n.Zone), count(n.Leads), count(n.FullReplicas), count(n.Witnesses), count(n.Learners),
		display.Bytes(n.UsedBytes), display.Bytes(n.CapacityBytes), display.OrDash(n.Version), writes,
	}
}
