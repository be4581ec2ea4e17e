package cli

import (
	"cmp"
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
	var verify, lastSamples bool
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
		r := &restore{cmd: cmd, client: c, backup: b, lastSamples: lastSamples, raw: rawTimes{c, map[metricName]int64{}}}
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

Of hours that lie before raw, by the cluster's databases file, what is kept of them is written: the
last sample, and rollups of all that the backup has of the hour. What a series has in such an
hour already stays. Of hours that lay before raw when the backup was made it has the rollups. Where
all samples are kept now, a restore of these is refused before anything is written; --last-samples
writes their last samples alone. When midnight (UTC) passes meanwhile, repeat the restore: one more
day lies before raw then.

With --verify nothing is written: number and digest of the samples of each metric in the cluster are
compared with those of the backup. They are the same after a restore into an empty cluster.`,
		Example: `  tickmesh restore --addr router:6183 /backups
  tickmesh restore --addr router:6183 s3://backups/tickmesh --name 20261121t164200z --verify`,
	})
	cmd.Flags().StringVar(&name, "name", "", "`name` of the backup (default: the newest that is complete)")
	cmd.Flags().BoolVar(&lastSamples, "last-samples", false, "of hours of which the backup has rollups, write the last sample alone where all samples are kept now")
	cmd.Flags().BoolVar(&verify, "verify", false, "write nothing; compare the cluster with the backup")
	target.Define(cmd.Flags())
	return cmd
}

// restore writes the samples of a backup, or compares them.
type restore struct {
	cmd    *cobra.Command
	client *client.Client
	backup *archive.Backup

	lastSamples bool
	raw         rawTimes
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
		if units[i].Hours {
			continue
		}
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
	if err := r.checkHours(ctx); err != nil {
		return err
	}
	differ, err := r.differences(ctx)
	if err != nil {
		return err
	}
	missing := func(u *archive.Unit) bool {
		_, missing := differ[rangeOf(u)]
		return missing
	}
	p := startProgress(r.cmd.ErrOrStderr(), r.backup.Bytes)
	known := &importer{known: map[string]*client.Series{}}
	hours := &hourWriter{ctx: ctx, write: r.client.WriteHours, known: known}
	// Those of the backup come first: an hour that is there is passed over.
	err = r.backup.Read(ctx, func(u *archive.Unit) bool { return u.Hours && missing(u) }, func(u *archive.Unit) archive.Visitor {
		rawMs, err := r.raw.of(ctx, rangeOf(u).metricName)
		if err != nil {
			return func(series.Key, []int64, []float64) error { return err }
		}
		return hours.visit(rawMs)
	}, nil)
	if err == nil {
		err = hours.flush()
	}
	withRollups, written := hours.count, int64(0)
	if err == nil {
		written, err = r.writeSamples(missing, hours, p)
	}
	p.end()
	if err == nil {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "%d samples written, %d were there, as they were at %s\n",
			written, r.backup.Samples-written, time.UnixMilli(r.backup.StartedMs).UTC().Format(time.RFC3339))
		// What the backup has of the same hours among its samples comes after their rollups, and is passed over.
		if n := cmp.Or(withRollups, hours.count); n > 0 {
			fmt.Fprintf(r.cmd.ErrOrStderr(), "%d hours that lie before raw were written as their last sample and rollups; where a series already had data in an hour, that stays\n", n)
		}
	}
	return err
}

// writeSamples writes the samples of units: those from before raw as hours.
func (r *restore) writeSamples(wanted func(*archive.Unit) bool, hours *hourWriter, p *progress) (written int64, err error) {
	ctx := r.cmd.Context()
	w, err := r.client.NewWriter(client.WriterOptions{BatchPoints: 20_000, BatchBytes: 2 << 20})
	if err != nil {
		return 0, err
	}
	err = r.backup.Read(ctx, func(u *archive.Unit) bool { return !u.Hours && wanted(u) }, func(u *archive.Unit) archive.Visitor {
		rawMs, failed := r.raw.of(ctx, rangeOf(u).metricName)
		failed = errors.Join(failed, hours.begin(u))
		return func(key series.Key, timesMs []int64, values []float64) error {
			s, err := hours.known.seriesOf(key)
			if err = errors.Join(failed, err); err != nil {
				return err
			}
			for i, ms := range timesMs {
				if ms < rawMs {
					err = hours.sample(s, key, ms, values[i])
				} else {
					err = w.Append(ctx, s, ms, values[i])
				}
				if err != nil {
					return err
				}
			}
			written += int64(len(timesMs))
			p.addSamples(int64(len(timesMs)))
			return nil
		}
	}, p.addDone)
	if err == nil {
		err = errors.Join(hours.flush(), w.Flush(ctx))
	}
	return written, errors.Join(err, w.Close(ctx))
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
