package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/charts"
	"github.com/tickmesh/tickmesh/operator/objects"
)

// definitionsTimeout bounds the whole command; a Job tries it again.
const definitionsTimeout = time.Minute

// newDefinitionsCommand makes the command that a Job runs before an upgrade.
func newDefinitionsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "definitions", Short: "Bring the definitions of the resources to this operator's version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("find Kubernetes: %w", err)
			}
			api, err := client.New(config, client.Options{})
			if err != nil {
				return fmt.Errorf("connect to Kubernetes: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), definitionsTimeout)
			defer cancel()
			return applyDefinitions(ctx, api, func(name string) { fmt.Fprintln(cmd.OutOrStdout(), "applied", name) })
		},
	}
}

// applyDefinitions applies the definitions that this operator was built with, whoever
// has made those that are there.
func applyDefinitions(ctx context.Context, api client.Client, applied func(name string)) error {
	definitions, err := charts.Definitions()
	if err != nil {
		return err
	}
	for _, definition := range definitions {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(definition, &u.Object); err != nil {
			return fmt.Errorf("a definition: %w", err)
		}
		if err := api.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(objects.FieldOwner), client.ForceOwnership); err != nil {
			return fmt.Errorf("definition %s: %w", u.GetName(), err)
		}
		applied(u.GetName())
	}
	return nil
}
