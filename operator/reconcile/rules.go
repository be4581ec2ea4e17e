package reconcile

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/tenancy"
	"github.com/tickmesh/tickmesh/operator/build"
)

// rules keeps what holds for databases and who may do what. What is wrong is told, changes
// nothing, and keeps nobody from going on.
func (p *pass) rules(ctx context.Context) error {
	return errors.Join(p.databaseRules(ctx), p.users(ctx))
}

// databaseRules applies what holds for each database, if it can be read, and notes whether
// there is something that pods can be given.
func (p *pass) databaseRules(ctx context.Context) error {
	text := p.cluster.Spec.Databases
	if text == "" {
		return nil
	}
	config := build.DatabasesConfigMap(p.cluster)
	_, wrong := tenancy.Parse("spec.databases", []byte(text))
	if wrong == nil {
		if wrong = p.apply(ctx, config); wrong == nil {
			p.databases = config.Name
			return nil
		}
	}
	found, err := p.get(ctx, p.Client, config.Name, &corev1.ConfigMap{})
	if found {
		p.databases = config.Name // as it was before
	}
	return errors.Join(wrong, err)
}

// users writes the file of users that routers are given: those of the Secret that the spec
// names, and the operator's own.
func (p *pass) users(ctx context.Context) error {
	if !build.AuthEnabled(p.cluster) {
		return nil
	}
	tokens, err := p.tokens(ctx)
	if err != nil {
		return err
	}
	name := p.cluster.Spec.Security.AuthSecretName
	source, err := p.secret(ctx, name)
	if err != nil {
		return err
	}
	if source == nil || len(source.Data[build.KeyAuth]) == 0 {
		return fmt.Errorf("secret %s with the key %s is not there", name, build.KeyAuth)
	}
	file, err := build.AuthFile(source.Data[build.KeyAuth], digest(tokens.Data[build.KeyToken]), digest(tokens.Data[build.KeyMetricsToken]))
	if err != nil {
		return fmt.Errorf("secret %s: %w", name, err)
	}
	present, err := p.secret(ctx, build.AuthSecret(p.cluster))
	if err != nil || present != nil && p.owns(present) && bytes.Equal(present.Data[build.KeyAuth], file) {
		return err
	}
	return p.writeSecret(ctx, build.AuthSecret(p.cluster), present, func(s *corev1.Secret) error {
		if present == nil {
			s.Type = corev1.SecretTypeOpaque
		}
		s.Data = map[string][]byte{build.KeyAuth: file}
		return nil
	})
}

// tokens returns the Secret with the tokens of the operator and of Prometheus, which it makes
// once. Who deletes it gets new ones.
func (p *pass) tokens(ctx context.Context) (*corev1.Secret, error) {
	name := build.TokenSecret(p.cluster)
	present, err := p.secret(ctx, name)
	if err != nil {
		return nil, err
	}
	if present != nil && p.owns(present) && len(present.Data[build.KeyToken]) > 0 && len(present.Data[build.KeyMetricsToken]) > 0 {
		return present, nil
	}
	var made *corev1.Secret
	err = p.writeSecret(ctx, name, present, func(s *corev1.Secret) error {
		if present == nil {
			s.Type = corev1.SecretTypeOpaque
		}
		s.Data = map[string][]byte{build.KeyToken: newToken(), build.KeyMetricsToken: newToken()}
		made = s
		return nil
	})
	return made, err
}

// tokenRandomBytes make guessing hopeless.
const tokenRandomBytes = 32

func newToken() []byte {
	random := make([]byte, tokenRandomBytes)
	_, _ = rand.Read(random) // it never fails: see its documentation
	return []byte("tickmesh_" + base64.RawURLEncoding.EncodeToString(random))
}

// digest is what a file of users has of a token.
func digest(token []byte) string {
	sum := sha256.Sum256(token)
	return hex.EncodeToString(sum[:])
}

// routerToken returns the token that routers are shown; empty: they ask for none.
func (p *pass) routerToken(ctx context.Context, secretName string) (string, error) {
	if secretName == "" {
		return "", nil
	}
	secret, err := p.secret(ctx, secretName)
	if err != nil || secret == nil {
		return "", err // it is made soon
	}
	return string(secret.Data[build.KeyToken]), nil
}
