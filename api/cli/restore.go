package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/settings"
)

func newRestoreCommand() *cobra.Command {
	var verify bool
	var name string
	var target targetSettings
	s := &clientCommand{check: target.Validate, run: func(cmd *cobra.Command, c *client.Client) error {
		store, err := target.open(cmd.Flags().Arg(0))
		if err != nil {
			return settings.WithHelp(cmd, err)
		}
		b, err := archive.Load(cmd.Context(), store, name)
		if err != nil {
			return err
		}
		r := &restore{cmd: cmd, client: c, backup: b}
		if verify {
			err = r.verify()
		} else if err = checkBackup(cmd, b); err == nil {
			err = r.run()
		}
		if err != nil {
			return err
		}
		return target.writeReport(reportOf(&b.Manifest))
	}}
	cmd := s.prepare(&cobra.Command{
		Use: "restore TARGET", Short: "Write the samples of a backup", Args: cobra.ExactArgs(1),
		Long: `Writes the samples of a backup into a cluster, which may be empty or used: samples with the same
series and time are replaced, others stay. A backup that is damaged, or not complete, is refused
before anything is written. A restore can be repeated: what the cluster has already is passed over.

With --verify nothing is written: number and digest of the samples of each metric in the cluster are
compared with those of the backup. They are the same after a restore into an empty cluster.`,
		Example: `  tickmesh restore --addr router:6183 /backups
  tickmesh restore --addr router:6183 s3://backups/tickmesh --name 20261121t164200z --verify`,
	})
	cmd.Flags().StringVar(&name, "name", "", "`name` of the backup (default: the newest that is complete)")
	cmd.Flags().BoolVar(&verify, "verify", false, "write nothing; compare the cluster with the backup")
	target.Define(cmd.Flags())
	return cmd
}

// restore writes the samples of a backup, or compares them.
type restore struct {
	cmd    *cobra.Command
	client *client.Client
	backup *archive.Backup
}

// metricRange is a metric in a range of time that begins at startMs.
type metricRange struct {
	metricName
	startMs int64
}

func rangeOf(u *archive.Unit) metricRange {
	return metricRange{metricName{string(u.Database), string(u.Metric)}, startOf(u.FromMs, periodMs)}
}

// differences compares cluster and backup, period by period, and returns where they are not
// the same.
func (r *restore) differences(ctx context.Context) (map[metricRange]difference, error) {
	backed := map[metricName]map[int64]archive.Digest{}
	units := r.backup.Units()
	for i := range units {
		at := rangeOf(&units[i])
		if backed[at.metricName] == nil {
			backed[at.metricName] = map[int64]archive.Digest{}
		}
		sum := backed[at.metricName][at.startMs]
		sum.Merge(units[i].Digest)
		backed[at.metricName][at.startMs] = sum
	}
	p := startProgress(r.cmd.ErrOrStderr(), int64(len(backed)))
	defer p.end()
	differ := map[metricRange]difference{}
	for name, want := range backed {
		d, err := readDigests(ctx, r.client, name, false, "")
		if err != nil {
			return nil, fmt.Errorf("digests of metric %q of database %q: %w", name.metric, name.database, err)
		}
		got := d.byRange(periodMs)
		for start, digest := range want {
			if got[start] != digest {
				differ[metricRange{name, start}] = difference{got[start], digest}
			}
		}
		for start, digest := range got {
			if _, ok := want[start]; !ok {
				differ[metricRange{name, start}] = difference{digest, archive.Digest{}}
			}
		}
		p.addDone(1)
	}
	return differ, nil
}

// difference is what a cluster has, and what a backup has.
type difference struct{ cluster, backup archive.Digest }

func (r *restore) run() error {
	ctx := r.cmd.Context()
	differ, err := r.differences(ctx)
	if err != nil {
		return err
	}
	w, err := r.client.NewWriter(client.WriterOptions{BatchPoints: 20_000, BatchBytes: 2 << 20})
	if err != nil {
		return err
	}
	p := startProgress(r.cmd.ErrOrStderr(), r.backup.Bytes)
	known := &importer{known: map[string]*client.Series{}}
	written := int64(0)
	err = r.backup.Read(ctx, func(u *archive.Unit) bool {
		_, missing := differ[rangeOf(u)]
		return missing
	}, func(*archive.Unit) archive.Visitor {
		return func(key series.Key, timesMs []int64, values []float64) error {
			s, err := known.seriesOf(key)
			if err != nil {
				return err
			}
			for i, ms := range timesMs {
				if err := w.Append(ctx, s, ms, values[i]); err != nil {
					return err
				}
			}
			written += int64(len(timesMs))
			p.addSamples(int64(len(timesMs)))
			return nil
		}
	}, p.addDone)
	if err == nil {
		err = w.Flush(ctx)
	}
	err = errors.Join(err, w.Close(ctx))
	p.end()
	if err == nil {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "%d samples written, %d were there, as they were at %s\n",
			written, r.backup.Samples-written, time.UnixMilli(r.backup.StartedMs).UTC().Format(time.RFC3339))
	}
	return err
}

// differencesMax bounds the differences that are told one by one.
const differencesMax = 20

// verify compares the cluster with the backup.
func (r *restore) verify() error {
	differ, err := r.differences(r.cmd.Context())
	if err != nil {
		return err
	}
	told := 0
	for at, d := range differ {
		if told++; told > differencesMax {
			break
		}
		fmt.Fprintf(r.cmd.OutOrStdout(), "metric %q of database %q has %d samples in the 32 days from %s on, the backup has %d; digests %016x and %016x\n",
			at.metric, access.Display(at.database), d.cluster.Samples, time.UnixMilli(at.startMs).UTC().Format(time.DateOnly), d.backup.Samples, uint64(d.cluster.Sum), uint64(d.backup.Sum))
	}
	if len(differ) > 0 {
		return fmt.Errorf("the cluster differs from the backup in %d metrics and periods of 32 days", len(differ))
	}
	fmt.Fprintf(r.cmd.ErrOrStderr(), "the cluster has the %d samples of the backup\n", r.backup.Samples)
	return nil
}

// checkBackup reads all of a backup.
func checkBackup(cmd *cobra.Command, b *archive.Backup) error {
	p := startProgress(cmd.ErrOrStderr(), b.Bytes)
	defer p.end()
	return b.Check(cmd.Context(), p.addDone)
}
