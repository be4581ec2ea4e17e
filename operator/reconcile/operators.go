package reconcile

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/objects"
	"github.com/tickmesh/tickmesh/operator/ownership"
)

// operators looks at who acts for a cluster.
func (s *Scope) operators(ctx context.Context, c *v1alpha1.TickMeshCluster) (ownership.Operators, error) {
	o := ownership.Operators{Self: s.Defaults.OperatorNamespace, Holder: c.Status.Operator, Now: s.Now()}
	if o.Holder == "" || o.Holder == o.Self {
		return o, nil
	}
	lease := &coordinationv1.Lease{}
	switch err := s.Reader.Get(ctx, types.NamespacedName{Namespace: o.Holder, Name: ownership.LeaseName}, lease); {
	case apierrors.IsForbidden(err):
		o.LeaseHidden = true
	case err == nil:
		o.Lease = lease
	case !apierrors.IsNotFound(err):
		return o, fmt.Errorf("look at the lease of the operator in namespace %s: %w", o.Holder, err)
	}
	return o, nil
}

// acts reports whether this operator acts for a cluster. It writes down that it does before
// it changes anything else; if another one was faster, that is a conflict.
func (s *Scope) acts(ctx context.Context, m *Memory, c *v1alpha1.TickMeshCluster) (bool, error) {
	o, err := s.operators(ctx, c)
	if err != nil {
		return false, err
	}
	standing := o.Decide()
	s.Metrics.exclude(c, standing == ownership.Excluded)
	switch standing {
	case ownership.Excluded:
		if !m.excluded {
			s.Events.Eventf(c, nil, corev1.EventTypeWarning, "AnotherOperator", "Reconcile", "%s", o.Refusal())
		}
		m.excluded = true
		return false, nil
	case ownership.Free:
		before := c.DeepCopy()
		c.Status.Operator = o.Self
		if err := objects.PatchStatus(ctx, s.Client, c, before); err != nil {
			return false, fmt.Errorf("write down who acts for the cluster: %w", err)
		}
	case ownership.Acting:
	}
	m.excluded = false
	return true, nil
}

// excluded reports whether another operator acts for a cluster, and so for its backups.
func (s *Scope) excluded(ctx context.Context, c *v1alpha1.TickMeshCluster) (bool, error) {
	o, err := s.operators(ctx, c)
	return err == nil && o.Decide() == ownership.Excluded, err
}
