package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/router/ingest"
	"github.com/tickmesh/tickmesh/router/query/opentsdb"
)

// programVersion is the release that the next tag will carry.
const programVersion = "0.1.0"

// build reads what the compiler noted about the source: commit, its time, and
// whether files differed from it.
func build() ingest.Build {
	b := ingest.Build{Version: programVersion, Revision: "unknown", Date: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	modified := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value[:min(12, len(s.Value))]
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	if modified {
		b.Revision += "-modified"
	}
	return b
}

func apiVersion() opentsdb.Version {
	b := build()
	return opentsdb.Version{ShortRevision: b.Revision, FullRevision: b.Revision, Repo: "tickmesh " + b.Version}
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			b := build()
			fmt.Fprintf(cmd.OutOrStdout(), "tickmesh %s %s %s %s/%s\n", b.Version, b.Revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

func failpointNames() []string {
	names := node.Failpoints()
	slices.Sort(names)
	return slices.Compact(names)
}

func newFailpointsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "failpoints", Short: "List the names that --failpoints takes", Args: cobra.NoArgs, Hidden: true,
		Run: func(cmd *cobra.Command, _ []string) {
			for _, name := range failpointNames() {
				fmt.Fprintln(cmd.OutOrStdout(), name)
			}
		},
	}
}
