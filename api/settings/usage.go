package settings

import (
	"fmt"
	"io"
	"slices"
	_ "time/tzdata" // small images have no time zones, which queries may name

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	groupAnnotation = "tickmesh_group"
	usageColumns    = 100
)

// The headings of the flags of processes in their help texts.
const (
	HeadingListeners   = "Listeners (empty switches one off)"
	HeadingCluster     = "Cluster"
	HeadingStorage     = "Storage"
	HeadingMoves       = "Moves of shards"
	HeadingWriteLimits = "Limits of writes"
	HeadingQueryLimits = "Limits of queries (0: none)"
	HeadingRules       = "Rules and alerts (files are read again when they change)"
	HeadingAccess      = "Databases and access (files are read again when they change)"
	HeadingTLS         = "TLS (PEM files, read again when they change)"
	HeadingOperation   = "Operation"
)

// Group puts flags under a heading of the help text.
func Group(flags *pflag.FlagSet, heading string, names ...string) {
	for _, name := range names {
		flags.Lookup(name).Annotations = map[string][]string{groupAnnotation: {heading}}
	}
}

// Hide keeps flags out of the help text that only developers turn. They stay settable, by
// file and environment, too.
func Hide(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flags.Lookup(name).Hidden = true
	}
}

// WriteUsage writes the flags below their headings.
func WriteUsage(cmd *cobra.Command, w io.Writer, headings []string) {
	fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, heading := range headings {
		set := pflag.NewFlagSet(heading, pflag.ContinueOnError)
		set.SortFlags = false
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(f.Annotations[groupAnnotation], heading) {
				set.AddFlag(f)
			}
		})
		fmt.Fprintf(w, "\n%s:\n%s", heading, set.FlagUsagesWrapped(usageColumns))
	}
	fmt.Fprint(w, `
A size is a number of bytes, or has a unit: 64KiB, 1.5GB. A time has a unit: 30s, 36h, 90d, 2w, 1y.

Every flag is also a key of the --config file (http-addr: ":6182") and an environment variable
(TICKMESH_HTTP_ADDR). A flag wins over the environment, the environment over the file.
`)
}

// WrapUsage makes the usage of a command with one list of flags as wide as the others.
func WrapUsage(cmd *cobra.Command) *cobra.Command {
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		w := cmd.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
		if cmd.Example != "" {
			fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
		}
		fmt.Fprintf(w, "\nFlags:\n%s", cmd.LocalFlags().FlagUsagesWrapped(usageColumns))
		return nil
	})
	return cmd
}

// WithHelp adds to an error where the help of the command is.
func WithHelp(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w\nsee `%s --help`", err, cmd.CommandPath())
}
