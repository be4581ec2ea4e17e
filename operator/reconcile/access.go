package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/secret"
	"github.com/tickmesh/tickmesh/api/tenancy"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/objects"
)

// access is what holds for databases and who may do what, as spec and its Secret say.
type access struct {
	cluster *v1alpha1.TickMeshCluster
	objects *objects.Client
	// databases is the ConfigMap with what holds for each database; empty: there is none.
	databases string
	wrong     error // what is wrong with either
}

// keep keeps what holds for databases and who may do what. What is wrong is told, changes
// nothing, and keeps nobody from going on.
func (a *access) keep(ctx context.Context) error {
	return errors.Join(a.databaseRules(ctx), a.users(ctx))
}

// databaseRules applies what holds for each database, if it can be read, and notes whether
// there is something that pods can be given.
func (a *access) databaseRules(ctx context.Context) error {
	text := a.cluster.Spec.Databases
	if text == "" {
		return nil
	}
	config := build.DatabasesConfigMap(a.cluster)
	_, wrong := tenancy.Parse("spec.databases", []byte(text))
	if wrong == nil {
		if wrong = a.objects.Apply(ctx, config); wrong == nil {
			a.databases = config.Name
			return nil
		}
	}
	found, err := a.objects.Find(ctx, config.Name, &corev1.ConfigMap{})
	if found {
		a.databases = config.Name // as it was before
	}
	return errors.Join(wrong, err)
}

// users writes the file of users that routers are given: those of the Secret that the spec
// names, and the operator's own.
func (a *access) users(ctx context.Context) error {
	if !build.AuthEnabled(a.cluster) {
		return nil
	}
	tokens, err := a.tokens(ctx)
	if err != nil {
		return err
	}
	name := a.cluster.Spec.Security.AuthSecretName
	source, err := a.objects.Secret(ctx, name)
	if err != nil {
		return err
	}
	if source == nil || len(source.Data[build.KeyAuth]) == 0 {
		return fmt.Errorf("secret %s with the key %s is not there", name, build.KeyAuth)
	}
	file, err := build.AuthFile(source.Data[build.KeyAuth], secret.DigestOf(tokens.Data[build.KeyToken]).String(), secret.DigestOf(tokens.Data[build.KeyMetricsToken]).String())
	if err != nil {
		return fmt.Errorf("secret %s: %w", name, err)
	}
	present, err := a.objects.Secret(ctx, build.AuthSecret(a.cluster))
	if err != nil || present != nil && a.objects.Owns(present) && bytes.Equal(present.Data[build.KeyAuth], file) {
		return err
	}
	return a.objects.WriteSecret(ctx, build.AuthSecret(a.cluster), present, func(s *corev1.Secret) error {
		if present == nil {
			s.Type = corev1.SecretTypeOpaque
		}
		s.Data = map[string][]byte{build.KeyAuth: file}
		return nil
	})
}

// tokens returns the Secret with the tokens of the operator and of Prometheus, which it makes
// once. Who deletes it gets new ones.
func (a *access) tokens(ctx context.Context) (*corev1.Secret, error) {
	name := build.TokenSecret(a.cluster)
	present, err := a.objects.Secret(ctx, name)
	if err != nil {
		return nil, err
	}
	if present != nil && a.objects.Owns(present) && len(present.Data[build.KeyToken]) > 0 && len(present.Data[build.KeyMetricsToken]) > 0 {
		return present, nil
	}
	var made *corev1.Secret
	err = a.objects.WriteSecret(ctx, name, present, func(s *corev1.Secret) error {
		if present == nil {
			s.Type = corev1.SecretTypeOpaque
		}
		s.Data = map[string][]byte{build.KeyToken: []byte(secret.New("")), build.KeyMetricsToken: []byte(secret.New(""))}
		made = s
		return nil
	})
	return made, err
}
