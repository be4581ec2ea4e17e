package objects

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// refusing is an API server that evicts nobody, and answers no question.
type refusing struct {
	client.Client
	asked error
}

func (r refusing) SubResource(string) client.SubResourceClient { return refusingEviction{} }

func (r refusing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return r.asked
}

type refusingEviction struct{ client.SubResourceClient }

func (refusingEviction) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return apierrors.NewTooManyRequests("the budget allows none", 0)
}

// A budget is waited for; an API server that does not say which budget it is has failed.
func TestEvictionThatCannotBeLookedAt(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "demo-node-0", Labels: map[string]string{build.LabelComponent: build.ComponentNode}}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	broken := errors.New("the API server is gone")
	for _, test := range []struct {
		asked  error
		budget bool
	}{
		{apierrors.NewNotFound(corev1.Resource("poddisruptionbudgets"), "demo-node"), true},
		{broken, false},
	} {
		api := refusing{asked: test.asked}
		err := New(api, api, &v1alpha1.TickMeshCluster{}, Applied{}).EndPod(t.Context(), pod, false)
		if budget := new(BudgetError); errors.As(err, &budget) != test.budget {
			t.Errorf("%v: %v", test.asked, err)
		}
		if !test.budget && (!errors.Is(err, broken) || !strings.Contains(err.Error(), pod.Name)) {
			t.Errorf("%v", err)
		}
	}
}
