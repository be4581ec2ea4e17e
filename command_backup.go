package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/archive"
)

func newBackupCommand() *cobra.Command {
	fileBytes := byteSize(archive.FileBytesDefault)
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		return runBackup(cmd, c, cmd.Flags().Arg(0), int64(fileBytes))
	}}
	s.check = func(v *validation) { v.sizeBetween("file-bytes", fileBytes, 1, 1<<40) }
	cmd := s.prepare(&cobra.Command{
		Use: "backup DIR", Short: "Write all samples into a folder, for `tickmesh restore`", Args: cobra.ExactArgs(1),
		Long: `Writes all samples of all databases into a folder, every bit of them, while the cluster works on.
Every write that was acknowledged before the backup began is in it; of later ones, some may be. A
backup that was cut short, however it was, goes on when the command is started again with the same
folder.`,
		Example: "  tickmesh backup --addr router:6183 /backups/2026-11-21",
	})
	cmd.Flags().Var(&fileBytes, "file-bytes", "size from which on a new file is begun; what is in a complete file is not read again")
	return cmd
}

// timeRange is a range of times in ms, both inclusive.
type timeRange struct{ from, to int64 }

// metricName is a metric of a database.
type metricName struct{ database, metric string }

// backup copies samples from a cluster into an archive.
type backup struct {
	client   *client.Client
	archive  *archive.Writer
	progress *progress
}

func runBackup(cmd *cobra.Command, c *client.Client, dir string, fileBytes int64) (err error) {
	ctx := cmd.Context()
	start := time.Now() // before anything is read
	status, err := c.Status(ctx, true)
	if err != nil {
		return err
	}
	w, err := archive.Create(dir, status.Cluster, start.UnixMilli(), fileBytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	done := doneRanges(w.Manifest())
	if len(done) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "going on with the backup that was begun at %s\n", time.UnixMilli(w.Manifest().StartedMs).UTC().Format(time.RFC3339))
	}
	names, err := allMetrics(ctx, c)
	if err != nil {
		return err
	}
	b := &backup{client: c, archive: w, progress: startProgress(cmd.ErrOrStderr(), int64(len(names)))}
	for _, name := range names {
		if err = b.metric(ctx, name, done[name]); err != nil {
			break
		}
		b.progress.addDone(1)
	}
	b.progress.end()
	if err != nil {
		return err
	}
	if err := w.Finish(time.Now().UnixMilli()); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%d samples of %d metrics in %d files\n", w.Manifest().Samples(), len(names), len(w.Manifest().Files))
	return nil
}

// allMetrics gives the metrics of all databases.
func allMetrics(ctx context.Context, c *client.Client) (names []metricName, err error) {
	databases, err := c.Databases(ctx, client.Names{})
	if err != nil {
		return nil, err
	}
	for _, database := range databases {
		metrics, err := c.Metrics(ctx, database, client.Names{})
		if err != nil {
			return nil, err
		}
		for _, metric := range metrics {
			names = append(names, metricName{database, metric})
		}
	}
	return names, nil
}

// doneRanges gives what an archive has, in order of time.
func doneRanges(m *archive.Manifest) map[metricName][]timeRange {
	done := map[metricName][]timeRange{}
	for _, f := range m.Files {
		for _, u := range f.Units {
			name := metricName{string(u.Database), string(u.Metric)}
			done[name] = append(done[name], timeRange{u.FromMs, u.ToMs})
		}
	}
	for _, ranges := range done {
		slices.SortFunc(ranges, func(a, b timeRange) int {
			if a.from < b.from {
				return -1
			}
			return 1
		})
	}
	return done
}

// missing gives what is left of all times, without ranges that are in order and apart.
func missing(done []timeRange) (left []timeRange) {
	from := int64(scan.TimeMsMin)
	for _, r := range done {
		if r.from > from {
			left = append(left, timeRange{from, r.from - 1})
		}
		if r.to == math.MaxInt64 || r.to >= scan.TimeMsMax {
			return left
		}
		from = r.to + 1
	}
	return append(left, timeRange{from, scan.TimeMsMax})
}

// metric copies what is missing of one metric. A query that meets a limit of the server
// is asked again in halves.
func (b *backup) metric(ctx context.Context, name metricName, done []timeRange) error {
	left := missing(done)
	slices.Reverse(left) // the earliest is at the end
	for len(left) > 0 {
		last := len(left) - 1
		r := left[last]
		left = left[:last]
		err := b.rangeOf(ctx, name, r)
		if tooLarge(ctx, err) && r.from < r.to {
			middle := r.from + (r.to-r.from)/2
			left = append(left, timeRange{middle + 1, r.to}, timeRange{r.from, middle})
			continue
		}
		if err != nil {
			return fmt.Errorf("metric %q of database %q: %w", name.metric, name.database, err)
		}
	}
	return nil
}

// tooLarge says whether a smaller query could succeed.
func tooLarge(ctx context.Context, err error) bool {
	var limit *scan.LimitError
	if errors.As(err, &limit) {
		return limit.What != "series" // those are many at any time
	}
	return errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
}

const (
	backupTries      = 5
	backupRetryDelay = 500 * time.Millisecond // doubles
)

// rangeOf copies one range of time, again if the cluster had trouble in the middle.
func (b *backup) rangeOf(ctx context.Context, name metricName, r timeRange) error {
	delay := backupRetryDelay
	for try := 1; ; try++ {
		err := b.archive.Unit([]byte(name.database), []byte(name.metric), r.from, r.to, func(visit archive.Visitor) error {
			return b.samples(ctx, name, r, visit)
		})
		passes := errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrOverloaded)
		if !passes || try == backupTries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay):
		}
		delay *= 2
	}
}

func (b *backup) samples(ctx context.Context, name metricName, r timeRange, visit archive.Visitor) error {
	query := client.Query{Selector: scan.Selector{Database: name.database, Metric: name.metric}, FromMs: r.from, ToMs: r.to}
	for chunk, err := range b.client.Query(ctx, query) {
		if err != nil {
			return err
		}
		if err := visit(chunk.Series.Key(), chunk.TimesMs, chunk.Values); err != nil {
			return err
		}
		b.progress.addSamples(int64(len(chunk.TimesMs)))
	}
	return nil
}
