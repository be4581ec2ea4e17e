package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/settings"
)

// targetSettings say where backups are, beside the argument that names the target.
type targetSettings struct {
	keySettings
	endpoint, region, ca            string
	accessKeyID, secret, secretFile string
	report                          string
}

const endpointDefault = "https://s3.amazonaws.com"

func (s *targetSettings) Define(f *pflag.FlagSet) {
	f.StringVar(&s.endpoint, "s3-endpoint", endpointDefault, "`address` of S3-compatible storage: https://host or http://host:port")
	f.StringVar(&s.region, "s3-region", "", "`region` of the bucket (default: what the storage says)")
	f.StringVar(&s.ca, "s3-ca", "", "`file` with the CAs of the storage's certificate")
	f.StringVar(&s.accessKeyID, "s3-access-key-id", "", "`id` of the key that requests are signed with")
	f.StringVar(&s.secret, "s3-secret-access-key", "", "the `key`; better in the environment, or in a file, as others see a command's flags")
	f.StringVar(&s.secretFile, "s3-secret-access-key-file", "", "`file` with the key")
	s.defineReading(f)
	f.StringVar(&s.report, "report", "", "`file` that is told, as JSON, what was done")
}

func (s *targetSettings) Validate(v *settings.Validation) {
	if s.secret != "" && s.secretFile != "" {
		v.Refuse("s3-secret-access-key-file", s.secretFile, "--s3-secret-access-key is set too")
	}
	if (s.accessKeyID == "") != (s.secret == "" && s.secretFile == "") {
		v.Refuse("s3-access-key-id", s.accessKeyID, "id and key go together")
	}
}

// open returns the store of a target, with the keys of its backups.
func (s *targetSettings) open(target string) (archive.Store, error) {
	o := archive.S3Options{Endpoint: s.endpoint, Region: s.region, AccessKeyID: s.accessKeyID, SecretAccessKey: s.secret, CAFile: s.ca}
	if s.secretFile != "" {
		text, err := os.ReadFile(s.secretFile)
		if err != nil {
			return nil, fmt.Errorf("--s3-secret-access-key-file: %w", err)
		}
		o.SecretAccessKey = strings.TrimSpace(string(text))
	}
	store, err := archive.Open(target, o)
	if err != nil {
		return nil, err
	}
	keys, err := s.keys()
	if err != nil {
		return nil, err
	}
	return archive.WithKeys(store, keys), nil
}

// writeReport writes to the file of --report what was done. It is written in place: in
// Kubernetes the termination message is a file that is mounted.
func (s *targetSettings) writeReport(v any) error {
	if s.report == "" {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.report, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

// jobReport is what commands tell --report of a backup.
type jobReport struct {
	Name         string `json:"name"`
	Cluster      string `json:"cluster"`
	StartedMs    int64  `json:"started_ms"`
	FinishedMs   int64  `json:"finished_ms"`
	Samples      int64  `json:"samples"`
	Series       int64  `json:"series"`
	Bytes        int64  `json:"bytes"`         // of all of its objects
	WrittenBytes int64  `json:"written_bytes"` // of those that were written for it
}

func reportOf(m *archive.Manifest) jobReport {
	return jobReport{
		Name: m.Name, Cluster: m.Cluster, StartedMs: m.StartedMs, FinishedMs: m.FinishedMs,
		Samples: m.Samples, Series: m.Series, Bytes: m.Bytes, WrittenBytes: m.Written,
	}
}

// targetCommand is a command that looks at a target only.
type targetCommand struct {
	targetSettings
	check func(*settings.Validation) // of its own flags; nil: nothing
	run   func(cmd *cobra.Command, store archive.Store) error
}

// prepare makes a command read its settings, check them and open its target.
func (s *targetCommand) prepare(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().SortFlags = false
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_, err := settings.Load(cmd.Flags(), os.Environ())
		var v settings.Validation
		s.Validate(&v)
		if s.check != nil {
			s.check(&v)
		}
		if err := errors.Join(err, v.Err()); err != nil {
			return settings.WithHelp(cmd, err)
		}
		store, err := s.open(cmd.Flags().Arg(0))
		if err != nil {
			return settings.WithHelp(cmd, err)
		}
		return s.run(cmd, store)
	}
	return cmd
}
