package build

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// DisruptionBudget makes the budget that lets one pod of a component be evicted at a
// time, as when machines are drained. Pods without data may always be evicted when they
// are broken already.
func DisruptionBudget(c *v1alpha1.TickMeshCluster, component string) *policyv1.PodDisruptionBudget {
	unhealthy := policyv1.AlwaysAllow
	if component == ComponentNode || component == ComponentEtcd {
		unhealthy = policyv1.IfHealthyBudget
	}
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
		ObjectMeta: meta(c, component, Name(c, component)),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: Selector(c, component)},
			UnhealthyPodEvictionPolicy: &unhealthy,
		},
	}
}
