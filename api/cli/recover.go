package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/settings"
)

// errNotSaid ends a recovery that nobody has agreed to.
var errNotSaid = errors.New("nothing was changed; add --yes if the nodes that are waited for will not come back")

func newRecoverCommand() *cobra.Command {
	var o settings.Output
	var dryRun, yes, beginEmpty bool
	var shards []uint
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		options := client.RecoverOptions{DryRun: true, BeginEmpty: beginEmpty}
		for _, shard := range shards {
			options.Shards = append(options.Shards, uint32(shard))
		}
		found, err := c.Recover(cmd.Context(), options)
		if err != nil {
			return err
		}
		if !dryRun && yes && len(found) > 0 {
			options.DryRun, options.Shards = false, nil
			for _, r := range found {
				options.Shards = append(options.Shards, r.Shard) // those that are shown, no others
			}
			if found, err = c.Recover(cmd.Context(), options); err != nil {
				return err
			}
		}
		done := !dryRun && yes
		if !dryRun && !yes && len(found) > 0 {
			err = errNotSaid
		}
		if o.IsJSON() {
			return errors.Join(display.JSON(cmd.OutOrStdout(), found), err)
		}
		return errors.Join(showRecoveries(cmd.OutOrStdout(), found, done), err)
	}}
	cmd := s.prepare(&cobra.Command{
		Use: "recover", Short: "Let shards go on that have lost their majority", Args: cobra.NoArgs,
		Long: `Lets shards go on that have neither a leader nor a majority, each from the best copy that is there.
It is for nodes that will not come back: shards go on by themselves when all that may have data
are there. A shard that has a majority, and gets no leader all the same, has to be named. What
other copies have beyond the best one is lost, and it is dropped when their nodes come back.
Without --yes the command only shows what is there.`,
		Example: "  tickmesh recover --dry-run\n  tickmesh recover --shards 3,17 --yes",
	})
	cmd.Flags().UintSliceVar(&shards, "shards", nil, "`numbers` of the shards, with commas between; none: all that need it")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().BoolVar(&beginEmpty, "begin-empty", false, "shards of which no copy with data is there begin anew, empty")
	o.Define(cmd.Flags())
	return cmd
}

func showRecoveries(w io.Writer, found []client.Recovery, done bool) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "Every shard has a leader, or a majority that can elect one.")
		return err
	}
	var rows [][]string
	for _, r := range found {
		rows = append(rows, []string{
			strconv.Itoa(int(r.Shard)), copiesText(r.Copies), display.OrDash(r.Best), display.OrDash(strings.Join(r.WaitsFor, ",")), lossColumn(&r),
		})
	}
	if err := display.Table(w, "SHARD COPIES BEST WAITS-FOR LOST", rows); err != nil {
		return err
	}
	text := "\nA copy is told with the term and the number of its last entry; (r) never votes again, (w) has no data.\n"
	if done {
		text += "The shards go on from the best copies.\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// copiesText words copies: n1(r):5/120.
func copiesText(copies []client.ShardCopy) string {
	var parts []string
	for _, c := range copies {
		part := c.Node
		if c.Role == "witness" {
			part += "(w)"
		}
		if c.Relic {
			part += "(r)"
		}
		if c.Unclear {
			part += ":?"
		} else {
			part += fmt.Sprintf(":%d/%d", c.Term, c.Index)
		}
		parts = append(parts, part)
	}
	return display.OrDash(strings.Join(parts, ","))
}

func lossColumn(r *client.Recovery) string {
	var parts []string
	if r.NewestMs > 0 {
		parts = append(parts, "after "+time.UnixMilli(r.NewestMs).UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	switch {
	case r.Best == "":
		parts = append(parts, "everything")
	case r.LossMsMax > 0:
		parts = append(parts, "at most the last "+(time.Duration(r.LossMsMax)*time.Millisecond).String())
	default:
		parts = append(parts, "no bound")
	}
	return strings.Join(parts, ", ")
}
