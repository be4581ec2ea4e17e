package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	tickmesh "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
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

// command is what all commands have in common.
type command struct {
	out     io.Writer
	connect Connector
	access  Access
	output  string
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

// errRefused marks a change that would lose copies or space.
var errRefused = errors.New("refused")

// refused returns the error of a change that would be refused, with the reason; nil: there is none.
func refused(reason string) error {
	if reason == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", errRefused, reason)
}

// show writes a report as JSON or as text.
func (c *command) show(r interface{ write(w io.Writer) error }) error {
	if c.isJSON() {
		return display.JSON(c.out, r)
	}
	return r.write(c.out)
}
