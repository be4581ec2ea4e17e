package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/cli/migrate"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/settings"
)

// sourceSettings say what of another database is imported, and how.
type sourceSettings struct {
	kind                   string
	user, token, tokenFile string
	ca, tenant             string
	database, policy       string
	names                  string
	start, end             settings.Time
	step                   settings.Duration
	checkpoint             string
	check                  bool
}

// ofSource are the flags that have a meaning only with --from.
func ofSource() []string {
	return []string{"source-user", "source-token", "source-token-file", "source-ca", "source-tenant", "source-db", "source-retention-policy",
		"names", "start", "end", "step", "checkpoint", "check"}
}

func (s *sourceSettings) Define(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.kind, "from", "", "read another database that runs at ADDRESS, http://host:port, instead of a file; the `kind` is one of "+strings.Join(migrate.Kinds(), ", "))
	f.StringVar(&s.user, "source-user", "", "`name:password` for that database; better in the environment, TICKMESH_SOURCE_USER")
	f.StringVar(&s.token, "source-token", "", "`token` for it, sent as Bearer; better in the environment, TICKMESH_SOURCE_TOKEN, or in a file")
	f.StringVar(&s.tokenFile, "source-token-file", "", "`file` with that token")
	f.StringVar(&s.ca, "source-ca", "", "`file` with the CAs of its certificate (default: the system's)")
	f.StringVar(&s.tenant, "source-tenant", "", "`tenant` to ask it for, as X-Scope-OrgID")
	f.StringVar(&s.database, "source-db", "", "`database` of InfluxDB to read")
	f.StringVar(&s.policy, "source-retention-policy", "", "`policy` of InfluxDB to read; needed where the database has several")
	f.StringVar(&s.names, "names", "", "regular `expression` that the whole name of a metric, or of a measurement, must match")
	f.Var(&s.start, "start", "first time, as of tickmesh export (default: where the samples begin; OpenTSDB and TickTock cannot tell)")
	f.Var(&s.end, "end", "last time (default: now)")
	s.step = settings.Duration(24 * time.Hour)
	f.Var(&s.step, "step", "range of time that is read of a metric at once")
	f.StringVar(&s.checkpoint, "checkpoint", "tickmesh-import.json", "`file` that keeps how far the import is, so that the same command goes on there")
	f.BoolVar(&s.check, "check", true, "compare both sides afterwards: number, sum and bits of the samples of each step")
}

func (s *sourceSettings) validate(cmd *cobra.Command, v *settings.Validation) {
	address := cmd.Flags().Arg(0)
	if s.kind == "" {
		for _, name := range ofSource() {
			if cmd.Flags().Changed(name) {
				value := cmd.Flags().Lookup(name).Value.String()
				if name == "source-user" || name == "source-token" {
					value = "…"
				}
				v.Refuse(name, value, "only --from another database takes it")
			}
		}
		return
	}
	for _, name := range []string{"format", "precision"} {
		if cmd.Flags().Changed(name) {
			v.Refuse(name, cmd.Flags().Lookup(name).Value.String(), "only files have it")
		}
	}
	switch {
	case !slices.Contains(migrate.Kinds(), s.kind):
		v.Refuse("from", s.kind, "expected one of "+strings.Join(migrate.Kinds(), ", "))
	case address == "":
		v.Refuse("from", s.kind, "the ADDRESS of the database is missing")
	case s.token != "" && s.tokenFile != "":
		v.Refuse("source-token-file", s.tokenFile, "--source-token is set too")
	case s.user != "" && (s.token != "" || s.tokenFile != ""):
		v.Refuse("source-user", "…", "a token is given too")
	case s.user != "" && !strings.Contains(s.user, ":"):
		v.Refuse("source-user", "…", "expected name:password")
	}
	if _, err := s.pattern(); err != nil {
		v.Refuse("names", s.names, err.Error())
	}
	if time.Duration(s.step) < time.Second {
		v.Refuse("step", s.step.String(), "expected a second or more")
	}
	if s.checkpoint == "" {
		v.Refuse("checkpoint", "", "expected a file")
	}
}

// pattern returns the expression of the names; nil: all.
func (s *sourceSettings) pattern() (*regexp.Regexp, error) {
	if s.names == "" {
		return nil, nil
	}
	return regexp.Compile("^(?:" + s.names + ")$")
}

// open returns the database.
func (s *sourceSettings) open(address string, insecure bool) (migrate.Source, error) {
	o := migrate.SourceOptions{
		Address: address, Token: s.token, InsecureCredentials: insecure, CAFile: s.ca, Tenant: s.tenant, Database: s.database, RetentionPolicy: s.policy,
	}
	o.User, o.Password, _ = strings.Cut(s.user, ":")
	if s.tokenFile != "" {
		text, err := os.ReadFile(s.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--source-token-file: %w", err)
		}
		o.Token = strings.TrimSpace(string(text))
	}
	return migrate.Open(s.kind, o)
}

// errDiffers ends an import after which both sides do not have the same.
var errDiffers = errors.New("the cluster does not have what the source has")

// run imports from another database.
func (s *sourceSettings) run(cmd *cobra.Command, c *client.Client, of *settings.Client, database string) error {
	address := cmd.Flags().Arg(0)
	source, err := s.open(address, of.InsecureCredentials)
	if err != nil {
		return settings.WithHelp(cmd, err)
	}
	names, err := s.pattern()
	if err != nil {
		return err
	}
	now, out := time.Now(), cmd.ErrOrStderr()
	p := startProgress(out, 0)
	report, err := migrate.Execute(cmd.Context(), migrate.Options{
		Source: source, Client: c, Names: names, Checkpoint: s.checkpoint, Check: s.check,
		FromMs: s.start.UnixMilli(now, scan.TimeMsMin), FromSet: s.start.String() != "", ToMs: s.end.UnixMilli(now, now.UnixMilli()),
		Plan: migrate.Plan{
			Kind: s.kind, Address: address, Tenant: s.tenant, SourceDB: s.database, Policy: s.policy, Destination: of.Addresses, Database: database,
			Names: s.names, StepMs: time.Duration(s.step).Milliseconds(), Start: s.start.String(), End: s.end.String(),
		},
		Total: p.setTotal, Done: p.addDone, Samples: p.addSamples,
	})
	p.end()
	s.tell(out, &report)
	if err == nil && report.DifferencesTotal > 0 {
		err = fmt.Errorf("%w: %d steps differ", errDiffers, report.DifferencesTotal)
	}
	return err
}

// tell writes what was done for people.
func (s *sourceSettings) tell(out io.Writer, r *migrate.Report) {
	text := fmt.Sprintf("%d samples copied", r.Samples)
	if r.Resumed {
		text += ", with those before the import went on"
	}
	if s.check {
		text += fmt.Sprintf(", %d compared", r.Checked)
	}
	fmt.Fprintln(out, text)
	for _, of := range []struct {
		count int64
		what  string
	}{
		{r.LeftOut.Histograms, "native histograms"}, {r.LeftOut.Texts, "values that are text"}, {r.LeftOut.Series, "runs of series whose names cannot be stored"},
		{r.LeftOut.Repeated, "samples that share a millisecond with a later one"},
	} {
		if of.count > 0 {
			fmt.Fprintf(out, "left out: %d %s\n", of.count, of.what)
		}
	}
	for i := range r.Differences {
		fmt.Fprintln(out, "differs:", r.Differences[i].String())
	}
	if more := r.DifferencesTotal - int64(len(r.Differences)); more > 0 {
		fmt.Fprintf(out, "and %d steps more\n", more)
	}
}
