package objects

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/ownership"
)

// Secret reads a Secret as it is now, whoever made it; nil: there is none.
func (c *Client) Secret(ctx context.Context, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	found, err := c.FindLive(ctx, name, s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read secret %s: %w", name, err)
	case !found:
		return nil, nil
	}
	return s, nil
}

// WriteSecret creates a Secret, or changes the one that was read: not if anybody has
// changed it since, because keys must not be lost.
func (c *Client) WriteSecret(ctx context.Context, name string, present *corev1.Secret, write func(*corev1.Secret) error) error {
	owner := *metav1.NewControllerRef(c.cluster, v1alpha1.GroupVersion().WithKind(v1alpha1.KindCluster))
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: c.cluster.Namespace, Labels: build.Labels(c.cluster, "tls"), OwnerReferences: []metav1.OwnerReference{owner},
	}, Type: corev1.SecretTypeTLS}
	if present != nil {
		if err := ownership.CheckObject(c.cluster, "Secret", present); err != nil {
			return err
		}
		if s = present.DeepCopy(); !c.Owns(s) {
			s.OwnerReferences = append(s.OwnerReferences, owner)
		}
	}
	if err := write(s); err != nil {
		return fmt.Errorf("secret %s: %w", name, err)
	}
	if present == nil {
		if err := c.Cached.Create(ctx, s); err != nil {
			return fmt.Errorf("create secret %s: %w", name, err)
		}
		return nil
	}
	if err := c.Cached.Update(ctx, s); err != nil {
		return fmt.Errorf("update secret %s: %w", name, err)
	}
	return nil
}
