package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/cli/interchange"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/settings"
)

// rangeSettings say which samples of which series.
type rangeSettings struct {
	database   string
	start, end settings.Time
}

func (s *rangeSettings) Define(cmd *cobra.Command, otherwise string) {
	cmd.Flags().StringVar(&s.database, "db", "", "`database` to read from (default: the default one)")
	cmd.Flags().Var(&s.start, "start", "first time: now, 1h-ago, 2026-01-31, 2026-01-31T12:00:00Z, or seconds or milliseconds since 1970 (default: "+otherwise+")")
	cmd.Flags().Var(&s.end, "end", "last time (default: the end of time)")
}

func newExportCommand() *cobra.Command {
	var format formatSetting
	var r rangeSettings
	var out string
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) (err error) {
		selector, err := parseSelector(cmd.Flags().Arg(0), r.database)
		if err != nil {
			return settings.WithHelp(cmd, err)
		}
		w := cmd.OutOrStdout()
		if out != "" {
			file, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, file.Close()) }()
			w = file
		}
		now := time.Now()
		e := &exporter{cmd: cmd, client: c, query: client.Query{
			Selector: selector, FromMs: r.start.UnixMilli(now, scan.TimeMsMin), ToMs: r.end.UnixMilli(now, scan.TimeMsMax),
		}}
		return e.run(interchange.Format(format.format.Value), w)
	}}
	cmd := s.prepare(&cobra.Command{
		Use: "export [SELECTOR]", Short: "Write samples to a file, or standard output", Args: cobra.MaximumNArgs(1),
		Long: `Writes the samples of a database, or those that the selector picks, to a file or standard output.
` + "`tickmesh import`" + ` reads them back bit by bit. What line protocol cannot say (NaN, infinities, names
without an escape) is a comment there, which other programs pass over.`,
		Example: "  tickmesh export --format csv 'cpu{host=a}' --start 7d-ago --out cpu.csv\n  tickmesh export --db home > home.line",
	})
	format.Define(cmd)
	r.Define(cmd, "the beginning of time")
	cmd.Flags().StringVar(&out, "out", "", "`file` to write (default: standard output)")
	return cmd
}

// exporter writes the samples of a query as text.
type exporter struct {
	cmd      *cobra.Command
	client   *client.Client
	query    client.Query
	progress *progress
	count    int64
}

func (e *exporter) run(format interchange.Format, out io.Writer) error {
	metrics := []string{e.query.Selector.Metric}
	if e.query.Selector.MetricAny {
		// One query for each metric stays within the limits of a query.
		var err error
		if metrics, err = e.client.Metrics(e.cmd.Context(), e.query.Selector.Database, client.Names{}); err != nil {
			return err
		}
	}
	w, err := interchange.NewWriter(format, out)
	if err != nil {
		return err
	}
	e.progress = startProgress(e.cmd.ErrOrStderr(), int64(len(metrics)))
	for _, metric := range metrics {
		if err = e.metric(w, metric); err != nil {
			break
		}
		e.progress.addDone(1)
	}
	err = errors.Join(err, w.Close())
	e.progress.end()
	text := fmt.Sprintf("%d samples written", e.count)
	if n := w.Private(); n > 0 {
		text += fmt.Sprintf(", %d of them in a form that only `tickmesh import` reads", n)
	}
	fmt.Fprintln(e.cmd.ErrOrStderr(), text)
	return err
}

func (e *exporter) metric(w *interchange.Writer, metric string) error {
	q := e.query
	q.Selector.Metric, q.Selector.MetricAny = metric, false
	for chunk, err := range e.client.Query(e.cmd.Context(), q) {
		if err != nil {
			return err
		}
		if err := w.Write(chunk.Series.Key(), chunk.TimesMs, chunk.Values); err != nil {
			return err
		}
		e.count += int64(len(chunk.TimesMs))
		e.progress.addSamples(int64(len(chunk.TimesMs)))
	}
	return nil
}
