package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
)

func newUndrainCommand() *cobra.Command {
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		node := cmd.Flags().Arg(0)
		if err := c.Undrain(cmd.Context(), node); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s takes part again\n", node)
		return nil
	}}
	return s.prepare(&cobra.Command{
		Use: "undrain NODE", Short: "Take a drain back, also one that is under way", Args: cobra.ExactArgs(1),
	})
}
