package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tickmesh "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// Mesh is a cluster as its routers tell of it; *client.Client of the SDK is one.
type Mesh interface {
	Status(ctx context.Context, withoutShards bool) (*tickmesh.Status, error)
	Forecast(ctx context.Context, change tickmesh.Change) (*tickmesh.Forecast, error)
	Close() error
}

// Kubernetes is what the commands work with.
type Kubernetes struct {
	API       client.Client
	Namespace string // that of the clusters
	// Dial connects to the routers of a cluster. Close of what it returns ends the connection.
	Dial func(ctx context.Context, c *v1alpha1.TickMeshCluster) (Mesh, error)
	Logs Logs
}

// Access describes which Kubernetes is meant, as kubectl's flags of the same names do.
type Access struct{ Kubeconfig, Context, Namespace string }

// Connector finds a Kubernetes.
type Connector func(Access) (*Kubernetes, error)

// command is what all commands have in common.
type command struct {
	out     io.Writer
	connect Connector
	access  Access
	output  string
}

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

// Forms of output.
const (
	outputTable = "table"
	outputJSON  = "json"
)

// errWhich marks a cluster that cannot be told.
var errWhich = errors.New("which cluster?")

// cluster returns the one that is named, or the only one of the namespace.
func (k *Kubernetes) cluster(ctx context.Context, names []string) (*v1alpha1.TickMeshCluster, error) {
	if len(names) > 0 {
		c := &v1alpha1.TickMeshCluster{}
		err := k.API.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: names[0]}, c)
		return c, err
	}
	var list v1alpha1.TickMeshClusterList
	if err := k.API.List(ctx, &list, client.InNamespace(k.Namespace)); err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		found := make([]string, 0, len(list.Items))
		for i := range list.Items {
			found = append(found, list.Items[i].Name)
		}
		slices.Sort(found)
		return nil, fmt.Errorf("%w namespace %s has %d: %s", errWhich, k.Namespace, len(found), strings.Join(found, ", "))
	}
	return &list.Items[0], nil
}

// find returns Kubernetes and the cluster that the arguments name.
func (c *command) find(ctx context.Context, names []string) (*Kubernetes, *v1alpha1.TickMeshCluster, error) {
	k, err := c.connect(c.access)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := k.cluster(ctx, names)
	return k, cluster, err
}

// with finds Kubernetes and the cluster that the arguments name, and its routers.
func (c *command) with(ctx context.Context, names []string, do func(*Kubernetes, *v1alpha1.TickMeshCluster, Mesh) error) error {
	k, cluster, err := c.find(ctx, names)
	if err != nil {
		return err
	}
	mesh, err := k.Dial(ctx, cluster)
	if err != nil {
		return fmt.Errorf("reach the routers of %s: %w", cluster.Name, err)
	}
	return errors.Join(do(k, cluster, mesh), mesh.Close())
}

func (c *command) isJSON() bool { return c.output == outputJSON }
