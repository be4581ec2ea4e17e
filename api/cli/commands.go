package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/settings"
)

// Commands returns the commands that ask a cluster. Start starts the server that a backup is restored
// into to see that it can be; now returns the time that a backup is made at.
func Commands(start VerificationServer, now func() time.Time) []*cobra.Command {
	commands := []*cobra.Command{
		newQueryCommand(), newImportCommand(), newExportCommand(), newStatusCommand(), newNodesCommand(), newShardsCommand(),
		newDrainCommand(), newUndrainCommand(), newRecoverCommand(), newBackupCommand(start, now), newRestoreCommand(),
		newCheckCommand(),
	}
	for _, cmd := range commands {
		settings.WrapUsage(cmd)
	}
	return commands
}
