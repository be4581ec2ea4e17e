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
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/settings"
)

// formatSetting names a form of text.
type formatSetting struct{ format settings.Choice }

func (s *formatSetting) Define(cmd *cobra.Command) {
	s.format = settings.Choice{Value: string(interchange.Line), Words: []string{string(interchange.Line), string(interchange.CSV), string(interchange.JSON)}}
	cmd.Flags().Var(&s.format, "format", "InfluxDB line protocol, CSV, or OpenTSDB JSON")
}

func newImportCommand() *cobra.Command {
	var format formatSetting
	var database string
	var precision settings.Choice
	var source sourceSettings
	var s *clientCommand
	s = &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		if source.kind != "" {
			return source.run(cmd, c, &s.Client, database)
		}
		unit, _ := parse.PrecisionOf(precision.Value) // the flag takes only its words
		in, size, err := openInput(cmd)
		if err != nil {
			return err
		}
		defer in.Close()
		p := startProgress(cmd.ErrOrStderr(), size)
		i := &importer{cmd: cmd, client: c, progress: p, known: map[string]*client.Series{}}
		count, err := i.run(interchange.Format(format.format.Value), &progressReader{in, p}, interchange.ReadOptions{
			Database: database, Precision: unit, NowMs: time.Now().UnixMilli(),
		})
		p.end()
		fmt.Fprintf(cmd.ErrOrStderr(), "%d samples read\n", count)
		return err
	}}
	cmd := s.prepare(&cobra.Command{
		Use: "import [FILE | --from KIND ADDRESS]", Short: "Write samples from a file, standard input, or another database", Args: cobra.MaximumNArgs(1),
		Long: `Writes samples from a file, or standard input. What ` + "`tickmesh export`" + ` wrote comes back bit by
bit. The first line that cannot be read ends the import; what came before it is written. An import
can be repeated: samples that are there already stay what they are.

With --from, reads another database that runs, a day of a metric at a time. What was interrupted
goes on where it was when the same command is given again. Afterwards both sides are compared; steps
that differ are listed, and the exit status is 1.`,
		Example: "  tickmesh import --format csv weather.csv\n  tickmesh export --addr old:6183 | tickmesh import --addr new:6183\n" +
			"  tickmesh import --from prometheus http://old:9090 --start 30d-ago\n  tickmesh import --from influxdb http://old:8086 --source-db home --db home",
	})
	s.check = func(v *settings.Validation) { source.validate(cmd, v) }
	format.Define(cmd)
	cmd.Flags().StringVar(&database, "db", "", "`database` to write to (default: the default one)")
	precision = settings.Choice{Value: "ns", Words: []string{"ns", "us", "ms", "s", "m", "h"}}
	cmd.Flags().Var(&precision, "precision", "unit of the times of line protocol")
	source.Define(cmd)
	return cmd
}

// openInput opens the file that the command names, or standard input, and returns its
// size; 0: not known.
func openInput(cmd *cobra.Command) (in io.ReadCloser, size int64, err error) {
	name := cmd.Flags().Arg(0)
	if name == "" || name == "-" {
		return io.NopCloser(cmd.InOrStdin()), 0, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// importer writes samples.
type importer struct {
	cmd      *cobra.Command
	client   *client.Client
	progress *progress
	known    map[string]*client.Series // by key
}

// knownMax bounds the series that an importer remembers.
const knownMax = 100_000

func (i *importer) run(format interchange.Format, in io.Reader, o interchange.ReadOptions) (count int64, err error) {
	w, err := i.client.NewWriter(client.WriterOptions{BatchPoints: 20_000, BatchBytes: 2 << 20})
	if err != nil {
		return 0, err
	}
	ctx := i.cmd.Context()
	err = interchange.Read(format, in, o, func(key series.Key, timeMs int64, value float64) error {
		s, err := i.seriesOf(key)
		if err != nil {
			return err
		}
		count++
		i.progress.addSamples(1)
		return w.Append(ctx, s, timeMs, value)
	})
	return count, errors.Join(err, w.Close(ctx))
}

func (i *importer) seriesOf(key series.Key) (*client.Series, error) {
	if s, ok := i.known[string(key)]; ok {
		return s, nil
	}
	database, metric, tags, err := key.Parts(nil)
	if err != nil {
		return nil, err
	}
	list := make([]client.Tag, len(tags))
	for n, t := range tags {
		list[n] = client.Tag{Name: string(t.Name), Value: string(t.Value)}
	}
	s, err := client.NewSeriesIn(string(database), string(metric), list...)
	if err != nil {
		return nil, err
	}
	if len(i.known) >= knownMax {
		clear(i.known)
	}
	i.known[string(key)] = s
	return s, nil
}
