package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
)

// What `tickmesh check` writes to: a database of its own, so that nobody finds its points
// among theirs.
const (
	checkDatabase = "tickmesh_check"
	checkMetric   = "check"
)

func newCheckCommand() *cobra.Command {
	var database string
	s := &clientCommand{}
	s.run = func(cmd *cobra.Command, c *client.Client) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Duration(s.Timeout))
		defer cancel()
		took, err := checkOnce(ctx, c, database, time.Now().UnixMilli(), float64(rand.Uint32()))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "a point was written and read back in %v\n", took.Round(100*time.Microsecond))
		return err
	}
	cmd := s.prepare(&cobra.Command{
		Use: "check", Short: "Write a point and read it back", Args: cobra.NoArgs,
		Long: `Writes a point and reads it back, to see that a cluster works from here. It fails when the point
is not there, or not as it was written.`,
		Example: "  tickmesh check\n  tickmesh check --addr router-1:6183,router-2:6183",
	})
	cmd.Flags().StringVar(&database, "db", checkDatabase, "`database` to write to")
	return cmd
}

// checkOnce writes a point and reads it back, and says how long both took.
func checkOnce(ctx context.Context, c *client.Client, database string, timeMs int64, value float64) (time.Duration, error) {
	begin := time.Now()
	s, err := client.NewSeriesIn(database, checkMetric)
	if err != nil {
		return 0, err
	}
	if err := c.Write(ctx, client.Sample{Series: s, TimeMs: timeMs, Value: value}); err != nil {
		return 0, fmt.Errorf("write: %w", err)
	}
	found := []float64{}
	query := client.Query{Selector: scan.Selector{Database: database, Metric: checkMetric}, FromMs: timeMs, ToMs: timeMs}
	for chunk, err := range c.Query(ctx, query) {
		if err != nil {
			return 0, fmt.Errorf("read: %w", err)
		}
		found = append(found, chunk.Values...)
	}
	if len(found) != 1 || found[0] != value {
		return 0, fmt.Errorf("%v was written at %d ms, but %v is there", value, timeMs, found)
	}
	return time.Since(begin), nil
}
