package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/settings"
)

func newShardsCommand() *cobra.Command {
	var o settings.Output
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		status, err := c.Status(cmd.Context(), false)
		if err != nil {
			return err
		}
		if o.IsJSON() {
			return display.JSON(cmd.OutOrStdout(), append([]client.Shard{}, status.ShardStatuses...))
		}
		var rows [][]string
		for _, shard := range status.ShardStatuses {
			rows = append(rows, []string{
				strconv.Itoa(int(shard.Shard)), display.OrDash(shard.Leader), replicas(shard.Members), replicas(shard.Intended),
				strconv.FormatUint(shard.Term, 10), strconv.FormatUint(shard.CommitIndex, 10), display.Bytes(shard.Bytes), strconv.Itoa(int(shard.LossesSurvived)),
			})
		}
		return display.Table(cmd.OutOrStdout(), "SHARD LEADER MEMBERS INTENDED TERM COMMIT SIZE SPARE", rows)
	}}
	cmd := s.prepare(&cobra.Command{
		Use: "shards", Short: "List the shards", Args: cobra.NoArgs,
		Long: `Lists the shards. SPARE is how many voters may be lost without losing the majority. A
member is followed by (w) when it is a witness, by (l) when it is a learner, and by ? when
its leader does not hear from it.`,
	})
	o.Define(cmd.Flags())
	return cmd
}

// replicas names the members of a group.
func replicas(members []client.Replica) string {
	var names []string
	for _, m := range members {
		name := m.Node
		switch m.Role {
		case "witness":
			name += "(w)"
		case "learner":
			name += "(l)"
		}
		if !m.Active {
			name += "?"
		}
		names = append(names, name)
	}
	return display.OrDash(strings.Join(names, ","))
}
