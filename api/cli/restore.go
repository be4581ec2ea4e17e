package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
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
	sent        map[metricRange]int64 // samples from the time of raw on
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
		d, err := readDigests(ctx, r.client, name)
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
	var left []leftOut
	if err == nil {
		left, err = r.leftOut(ctx)
	}
	if err == nil {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "%d samples written, %d were there, as they were at %s\n",
			written, r.backup.Samples-written, time.UnixMilli(r.backup.StartedMs).UTC().Format(time.RFC3339))
		// What the backup has of the same hours among its samples comes after their rollups, and is passed over.
		if n := cmp.Or(withRollups, hours.count); n > 0 {
			fmt.Fprintf(r.cmd.ErrOrStderr(), "%d hours that lie before raw were written as their last sample and rollups; where a series already had data in an hour, that stays\n", n)
		}
		tellLeftOut(r.cmd.ErrOrStderr(), left)
	}
	return err
}

// leftOut is how many of the samples of a metric that were sent the cluster has not kept.
type leftOut struct {
	metricName
	sent, left int64
	firstMs    int64 // start of the first 32 days of which some are
}

// leftOut asks what is there of the samples that were sent as such. A cluster answers a write of samples that lie before one of its cuts,
// and leaves them out: before that of retention, or that of raw, which may be later than what its rules say now.
func (r *restore) leftOut(ctx context.Context) (list []leftOut, err error) {
	of := map[metricName]*leftOut{}
	for at := range r.sent {
		of[at.metricName] = &leftOut{metricName: at.metricName, firstMs: math.MaxInt64}
	}
	for name, l := range of {
		rawMs, err := r.raw.of(ctx, name)
		if err != nil {
			return nil, err
		}
		d, err := readRecorded(ctx, r.client, name)
		if err != nil {
			return nil, fmt.Errorf("what is there of metric %q of database %q after it was written: %w", name.metric, name.database, err)
		}
		maps.DeleteFunc(d.days, func(day int64, _ archive.Digest) bool { return day < startOf(rawMs, dayMs) })
		there := d.byRange(periodMs)
		for at, sent := range r.sent {
			if at.metricName != name {
				continue
			}
			l.sent += sent
			if n := sent - there[at.startMs].Samples; n > 0 {
				l.left, l.firstMs = l.left+n, min(l.firstMs, at.startMs)
			}
		}
		if l.left > 0 {
			list = append(list, *l)
		}
	}
	slices.SortFunc(list, func(a, b leftOut) int {
		return cmp.Or(cmp.Compare(a.database, b.database), cmp.Compare(a.metric, b.metric))
	})
	return list, nil
}

// tellLeftOut says what was left out, why, and what helps.
func tellLeftOut(out io.Writer, list []leftOut) {
	if len(list) == 0 {
		return
	}
	total := int64(0)
	for i := range list {
		total += list[i].left
	}
	fmt.Fprintf(out, "%d samples were left out by the cluster, though it has answered their writes:\n", total)
	for i := range list[:min(len(list), differencesMax)] {
		l := &list[i]
		fmt.Fprintf(out, "  metric %q of database %q: at least %d of %d samples, the first in the 32 days from %s on\n",
			l.metric, access.Display(l.database), l.left, l.sent, time.UnixMilli(l.firstMs).UTC().Format(time.DateOnly))
	}
	fmt.Fprintln(out, "They are older than the cluster keeps samples (retention), or of hours of which it keeps the last sample only (raw). If midnight (UTC) "+
		"has passed since the restore began, repeat it: then these hours are restored with their rollups. If raw was shorter before, the cut that it "+
		"left stays: set raw to what it was, repeat the restore, and set it back.")
}

// writeSamples writes the samples of units: those from before raw as hours.
func (r *restore) writeSamples(wanted func(*archive.Unit) bool, hours *hourWriter, p *progress) (written int64, err error) {
	ctx := r.cmd.Context()
	r.sent = map[metricRange]int64{}
	w, err := r.client.NewWriter(client.WriterOptions{BatchPoints: 20_000, BatchBytes: 2 << 20})
	if err != nil {
		return 0, err
	}
	err = r.backup.Read(ctx, func(u *archive.Unit) bool { return !u.Hours && wanted(u) }, func(u *archive.Unit) archive.Visitor {
		rawMs, failed := r.raw.of(ctx, rangeOf(u).metricName)
		failed = errors.Join(failed, hours.begin(u))
		at := rangeOf(u)
		return func(key series.Key, timesMs []int64, values []float64) error {
			s, err := hours.known.seriesOf(key)
			if err = errors.Join(failed, err); err != nil {
				return err
			}
			for i, ms := range timesMs {
				if ms < rawMs {
					err = hours.sample(s, key, ms, values[i])
				} else {
					at.startMs = startOf(ms, periodMs)
					r.sent[at]++
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
