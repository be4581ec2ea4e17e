package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/settings"
)

func newDrainCommand() *cobra.Command {
	var o settings.Output
	var dryRun bool
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		node := cmd.Flags().Arg(0)
		plan, err := c.Drain(cmd.Context(), node, dryRun)
		if err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		if o.IsJSON() {
			return display.JSON(w, plan)
		}
		takes := ""
		if plan.DurationMs > 0 {
			takes = ", about " + display.Time(plan.DurationMs)
		}
		verb := "is drained"
		if dryRun {
			verb = "would be drained"
		}
		fmt.Fprintf(w, "%s %s: %d moves, %s%s\n", node, verb, len(plan.Moves), display.Bytes(plan.TotalBytes), takes)
		if len(plan.Moves) == 0 {
			return nil
		}
		fmt.Fprintln(w)
		return writeMoves(w, plan.Moves)
	}}
	cmd := s.prepare(&cobra.Command{
		Use: "drain NODE", Short: "Move everything away from a node", Args: cobra.ExactArgs(1),
		Long: `Moves everything away from a node. The command returns at once; ` + "`tickmesh status`" + ` shows how
far it is. It is refused, with the reason, where copies or space would be lost.`,
		Example: "  tickmesh drain node-3 --dry-run\n  tickmesh drain node-3",
	})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	o.Define(cmd.Flags())
	return cmd
}
