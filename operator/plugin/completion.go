package plugin

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// Bounds of what a shell waits for, and shows.
const (
	completionTimeout = 3 * time.Second
	completionMax     = 200
)

// complete has shells complete names of clusters and nodes, and values of flags. kubectl asks by
// way of kubectl_complete-tickmesh.
func (c *command) complete(root *cobra.Command) error {
	if err := root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputTable, outputJSON}, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		return err
	}
	components := []string{build.ComponentEtcd, build.ComponentNode, build.ComponentRouter, build.ComponentEnvoy}
	for _, sub := range root.Commands() {
		sub.ValidArgsFunction = c.completeClusters
		if strings.Contains(sub.Use, "NODE") {
			sub.ValidArgsFunction = c.completeNodes
		}
		for flag, function := range map[string]cobra.CompletionFunc{
			"component": completeList(func(*cobra.Command) []string { return components }),
			"drain":     completeList(func(cmd *cobra.Command) []string { return c.nodeNames(cmd.Context()) }),
		} {
			if sub.Flags().Lookup(flag) == nil {
				continue
			}
			if err := sub.RegisterFlagCompletionFunc(flag, function); err != nil {
				return err
			}
		}
	}
	return nil
}

// completeList completes the last of a list with commas between.
func completeList(names func(*cobra.Command) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := begun[:strings.LastIndexByte(begun, ',')+1]
		var list []cobra.Completion
		for _, name := range names(cmd) {
			if !slices.Contains(strings.Split(before, ","), name) {
				list = append(list, before+name)
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

func (c *command) completeClusters(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if len(args) == 0 {
		for _, cluster := range c.clusters(cmd.Context()) {
			names = append(names, cluster.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (c *command) completeNodes(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names := slices.DeleteFunc(c.nodeNames(cmd.Context()), func(name string) bool { return slices.Contains(args, name) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// nodeNames returns the names of the nodes of all clusters of the namespace.
func (c *command) nodeNames(ctx context.Context) (names []string) {
	for _, cluster := range c.clusters(ctx) {
		for i := range cluster.Status.NodeStatuses {
			if len(names) < completionMax {
				names = append(names, cluster.Status.NodeStatuses[i].Name)
			}
		}
	}
	return names
}

// clusters returns those of the namespace; none where Kubernetes does not answer soon, as a shell
// has nowhere to show why.
func (c *command) clusters(ctx context.Context) []v1alpha1.TickMeshCluster {
	k, err := c.connect(c.access)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	var list v1alpha1.TickMeshClusterList
	if k.API.List(ctx, &list, client.InNamespace(k.Namespace), client.Limit(completionMax)) != nil {
		return nil
	}
	return list.Items
}
