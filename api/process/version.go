package process

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is the release that the next tag will carry.
const Version = "0.1.0"

// Build is what the compiler noted about the source of the program.
type Build struct {
	Version  string // "0.3.1"
	Revision string // short commit hash
	Date     string // of the build, for people
}

// CurrentBuild reads what the compiler noted about the source: commit, its time, and
// whether files differed from it.
func CurrentBuild() Build {
	b := Build{Version: Version, Revision: "unknown", Date: "unknown"}
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

// NewVersionCommand returns `tickmesh version`.
func NewVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			b := CurrentBuild()
			fmt.Fprintf(cmd.OutOrStdout(), "tickmesh %s %s %s %s/%s\n", b.Version, b.Revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
