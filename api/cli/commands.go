package cli

import (
	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/settings"
)

// Commands returns the commands that ask a cluster. Start starts the server that a backup is restored
// into to see that it can be.
func Commands(start VerificationServer) []*cobra.Command {
	commands := []*cobra.Command{
		newQueryCommand(), newImportCommand(), newExportCommand(), newStatusCommand(), newNodesCommand(), newShardsCommand(),
		newDrainCommand(), newUndrainCommand(), newRecoverCommand(), newBackupCommand(start), newRestoreCommand(),
		newCheckCommand(),
	}
	for _, cmd := range commands {
		settings.WrapUsage(cmd)
	}
	return commands
}
