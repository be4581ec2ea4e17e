package plugin

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Connector finds a Kubernetes.
type Connector func(Access) (*Kubernetes, error)

// Access describes which Kubernetes is meant, as kubectl's flags of the same names do.
type Access struct{ Kubeconfig, Context, Namespace string }

// NewCommand makes the command line.
func NewCommand(out io.Writer, connect Connector) *cobra.Command {
	c := &command{out: out, connect: connect}
	root := &cobra.Command{
		Use: "kubectl-tickmesh", Short: "Look at clusters of TickMesh, and change them safely",
		Annotations:  map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl tickmesh"},
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetOut(out)
	f := root.PersistentFlags()
	f.StringVarP(&c.access.Namespace, "namespace", "n", "", "`namespace` of the cluster (default: that of the context)")
	f.StringVar(&c.access.Kubeconfig, "kubeconfig", "", "`file` that says how Kubernetes is reached (default: as kubectl)")
	f.StringVar(&c.access.Context, "context", "", "`context` in that file (default: the current one)")
	f.StringVarP(&c.output, "output", "o", outputTable, "table, for people, or json, for programs")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if c.output != outputTable && c.output != outputJSON {
			return fmt.Errorf("--output %s: expected table or json", c.output)
		}
		return nil
	}
	root.AddCommand(c.newStatus(), c.newPlan(), c.newDrain(), c.newUndrain(), c.newBackup(), c.newRestore(), c.newTop(), c.newHibernate(), c.newWake(), c.newPause(), c.newResume(), c.newRestart(), c.newMaintain(), c.newLogs(), c.newReport())
	if err := c.complete(root); err != nil {
		panic("BUG: " + err.Error()) // of two functions for one flag
	}
	return root
}
