package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/archive"
)

func newRestoreCommand() *cobra.Command {
	var verify bool
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		r := &restore{cmd: cmd, client: c, dir: cmd.Flags().Arg(0)}
		if verify {
			return r.verify()
		}
		return r.run()
	}}
	cmd := s.prepare(&cobra.Command{
		Use: "restore DIR", Short: "Write the samples of a backup", Args: cobra.ExactArgs(1),
		Long: `Writes the samples of a backup into a cluster, which may be empty or used: samples with the same
series and time are replaced, others stay. A backup that is damaged, or not complete, is refused
before anything is written. A restore can be repeated.

With --verify nothing is written: number and digest of the samples of each metric in the cluster are
compared with those of the backup. They are the same after a restore into an empty cluster.`,
		Example: "  tickmesh restore --addr router:6183 /backups/2026-11-21\n  tickmesh restore --addr router:6183 /backups/2026-11-21 --verify",
	})
	cmd.Flags().BoolVar(&verify, "verify", false, "write nothing; compare the cluster with the backup")
	return cmd
}

// restore writes the samples of an archive, or compares them.
type restore struct {
	cmd    *cobra.Command
	client *client.Client
	dir    string
}

// open reads the manifest and checks all files.
func (r *restore) open() (*archive.Manifest, error) {
	m, err := archive.ReadManifest(r.dir)
	if err != nil {
		return nil, err
	}
	if m.FinishedMs == 0 {
		return nil, fmt.Errorf("%s: the backup was cut short: start `tickmesh backup` with this folder again", r.dir)
	}
	p := startProgress(r.cmd.ErrOrStderr(), totalBytes(m))
	defer p.end()
	var damaged []error // all of them, for whoever has copies
	for i := range m.Files {
		if err := r.cmd.Context().Err(); err != nil {
			return nil, err
		}
		damaged = append(damaged, archive.Check(r.dir, &m.Files[i]))
		p.addDone(m.Files[i].Bytes)
	}
	return m, errors.Join(damaged...)
}

func totalBytes(m *archive.Manifest) (n int64) {
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}

func (r *restore) run() error {
	m, err := r.open()
	if err != nil {
		return err
	}
	w, err := r.client.NewWriter(client.WriterOptions{BatchPoints: 20_000, BatchBytes: 2 << 20})
	if err != nil {
		return err
	}
	ctx := r.cmd.Context()
	p := startProgress(r.cmd.ErrOrStderr(), totalBytes(m))
	for i := range m.Files {
		if err = r.file(ctx, w, &m.Files[i], p); err != nil {
			break
		}
		p.addDone(m.Files[i].Bytes)
	}
	err = errors.Join(err, w.Close(ctx))
	p.end()
	if err == nil {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "%d samples written, as they were at %s\n", m.Samples(), time.UnixMilli(m.StartedMs).UTC().Format(time.RFC3339))
	}
	return err
}

func (r *restore) file(ctx context.Context, w *client.Writer, f *archive.File, p *progress) error {
	known := &importer{known: map[string]*client.Series{}}
	err := archive.Read(r.dir, f, func(key series.Key, timesMs []int64, values []float64) error {
		s, err := known.seriesOf(key)
		if err != nil {
			return err
		}
		for i, ms := range timesMs {
			if err := w.Append(ctx, s, ms, values[i]); err != nil {
				return err
			}
		}
		p.addSamples(int64(len(timesMs)))
		return nil
	})
	return errors.Join(err, w.Flush(ctx))
}

// differencesMax bounds the differences that are told one by one.
const differencesMax = 20

// verify compares the cluster with the archive.
func (r *restore) verify() error {
	m, err := r.open()
	if err != nil {
		return err
	}
	units := int64(0)
	for _, f := range m.Files {
		units += int64(len(f.Units))
	}
	p := startProgress(r.cmd.ErrOrStderr(), units)
	b := &backup{client: r.client, progress: p}
	differ := 0
	var told []string
	for i := range m.Files {
		for _, u := range m.Files[i].Units {
			var d archive.Digester
			name := metricName{string(u.Database), string(u.Metric)}
			err := b.samples(r.cmd.Context(), name, timeRange{u.FromMs, u.ToMs}, func(key series.Key, timesMs []int64, values []float64) error {
				d.Add(key, timesMs, values)
				return nil
			})
			if err != nil {
				p.end()
				return fmt.Errorf("metric %q of database %q: %w", name.metric, name.database, err)
			}
			if is := d.Summary(); is != u.Summary {
				if differ++; differ <= differencesMax {
					told = append(told, fmt.Sprintf("metric %q of database %q has %d series and %d samples, the backup has %d and %d",
						name.metric, name.database, is.Series, is.Samples, u.Series, u.Samples))
				}
			}
			p.addDone(1)
		}
	}
	p.end()
	for _, line := range told {
		fmt.Fprintln(r.cmd.OutOrStdout(), line)
	}
	if differ > 0 {
		return fmt.Errorf("%d of %d metrics differ from the backup", differ, units)
	}
	fmt.Fprintf(r.cmd.ErrOrStderr(), "the cluster has the %d samples of the backup\n", m.Samples())
	return nil
}
