package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
)

func newNodesCommand() *cobra.Command {
	var o outputSetting
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		status, err := c.Status(cmd.Context(), true)
		if err != nil {
			return err
		}
		if o.isJSON() {
			return writeJSON(cmd.OutOrStdout(), status.Nodes)
		}
		var rows [][]string
		for i := range status.Nodes {
			rows = append(rows, nodeRow(&status.Nodes[i]))
		}
		return writeTable(cmd.OutOrStdout(), "NODE STATE ADDRESS ZONE LEADS FULL WITNESS LEARNER USED DISK VERSION WRITES", rows)
	}}
	cmd := s.prepare(&cobra.Command{Use: "nodes", Short: "List the nodes", Args: cobra.NoArgs})
	o.define(cmd.Flags())
	return cmd
}

func nodeRow(n *client.Node) []string {
	state := n.Desired
	if !n.Alive {
		state += ", dead for " + humanTime(n.DeadMs)
	}
	writes := "ok"
	if n.Refusal != "" {
		writes = n.Refusal
	}
	count := func(v uint32) string { return strconv.Itoa(int(v)) }
	return []string{
		n.Node, state, orDash(n.Address), orDash(n.Zone), count(n.Leads), count(n.FullReplicas), count(n.Witnesses), count(n.Learners),
		humanBytes(n.UsedBytes), humanBytes(n.CapacityBytes), orDash(n.Version), writes,
	}
}
