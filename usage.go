package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	groupAnnotation = "tickmesh_group"
	usageColumns    = 100
)

// group puts flags under a heading of the help text.
func group(flags *pflag.FlagSet, heading string, names ...string) {
	for _, name := range names {
		flags.Lookup(name).Annotations = map[string][]string{groupAnnotation: {heading}}
	}
}

// writeUsage prints the flags below their headings.
func writeUsage(cmd *cobra.Command, w io.Writer, headings []string) {
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

// wrapUsage makes the usage of a command with one list of flags as wide as the others.
func wrapUsage(cmd *cobra.Command) *cobra.Command {
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
