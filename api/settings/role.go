package settings

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Role is what a process is started with.
type Role interface {
	Define(f *pflag.FlagSet)
	Validate() error
	Logger(w io.Writer) *slog.Logger
}

// Bind defines the flags of a role on a command, grouped by headings, and sets the command to
// load and validate them before it calls run.
func Bind(cmd *cobra.Command, s Role, headings []string, run func(context.Context, *slog.Logger, io.Writer) error) {
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		strange, err := Load(cmd.Flags(), os.Environ())
		if err == nil {
			err = s.Validate()
		}
		if err != nil {
			return WithHelp(cmd, err)
		}
		logger := s.Logger(cmd.ErrOrStderr())
		if len(strange) > 0 {
			logger.Warn("the environment has variables that look like settings and are none", "names", strings.Join(strange, " "))
		}
		return run(cmd.Context(), logger, cmd.OutOrStdout())
	}
	s.Define(cmd.Flags())
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		WriteUsage(cmd, cmd.OutOrStderr(), headings)
		return nil
	})
}
