package command

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/node"
)

// FailpointNames returns the names that --failpoints takes.
func FailpointNames() []string {
	names := node.Failpoints()
	slices.Sort(names)
	return slices.Compact(names)
}

// NewFailpointsCommand returns `tickmesh failpoints`.
func NewFailpointsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "failpoints", Short: "List the names that --failpoints takes", Args: cobra.NoArgs, Hidden: true,
		Run: func(cmd *cobra.Command, _ []string) {
			for _, name := range FailpointNames() {
				fmt.Fprintln(cmd.OutOrStdout(), name)
			}
		},
	}
}
