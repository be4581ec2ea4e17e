package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	reconcilers "github.com/tickmesh/tickmesh/operator/reconcile"
)

// The operator reads Secrets that users name, and so of any name; it lists and watches
// only its own.
//
// +kubebuilder:rbac:groups=tickmesh.dev,resources=tickmeshclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=tickmesh.dev,resources=tickmeshclusters/status,verbs=patch
// +kubebuilder:rbac:groups=tickmesh.dev,resources=tickmeshclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets;deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cert-manager.io,resources=certificates,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=tickmesh-operator,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors;servicemonitors,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get
// +kubebuilder:rbac:groups="",resources=configmaps;services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update

// Cluster is the controller of TickMeshCluster.
type Cluster struct {
	scope *reconcilers.Scope
	mu    struct {
		sync.Mutex
		memories map[types.NamespacedName]*memory // as many as there are clusters
	}
}

type memory struct {
	uid types.UID
	reconcilers.Memory
}

var _ reconcile.Reconciler = (*Cluster)(nil)

// NewCluster makes the controller.
func NewCluster(scope *reconcilers.Scope) *Cluster {
	c := &Cluster{scope: scope}
	c.mu.memories = map[types.NamespacedName]*memory{}
	return c
}

// Delays after passes with a step that failed. They grow to what they are without one, so
// that what the other steps wait for is seen in time.
const (
	failureDelayMin = 200 * time.Millisecond
	failureDelayMax = 30 * time.Second
)

func passDelays() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](failureDelayMin, failureDelayMax)
}

// conflictDelay is after a pass that somebody else was faster than.
const conflictDelay = 200 * time.Millisecond

// Reconcile makes one pass over a cluster. Errors are told in its status, and tried again
// with growing delays.
func (c *Cluster) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cluster := &v1alpha1.TickMeshCluster{}
	err := c.scope.Client.Get(ctx, request.NamespacedName, cluster)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, c.forget(request.NamespacedName)
	case err != nil:
		return reconcile.Result{}, err
	}
	result, err := reconcilers.Cluster(ctx, c.scope, &c.memory(request.NamespacedName, cluster.UID).Memory, cluster)
	if reconcilers.Conflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return reconcile.Result{RequeueAfter: result.After}, err
}

// memory returns what is kept of a cluster. One that was deleted and made again is another.
func (c *Cluster) memory(name types.NamespacedName, uid types.UID) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.mu.memories[name]; m != nil && m.uid == uid {
		return m
	} else if m != nil {
		m.Close()
	}
	m := &memory{uid: uid}
	c.mu.memories[name] = m
	return m
}

func (c *Cluster) forget(name types.NamespacedName) error {
	c.mu.Lock()
	if m := c.mu.memories[name]; m != nil {
		m.Close()
	}
	delete(c.mu.memories, name)
	c.mu.Unlock()
	c.scope.Metrics.Forget(name.Namespace, name.Name)
	c.scope.Turns.Done(name.String(), c.scope.Now())
	if err := c.scope.Meshes.Drop(name.Namespace + "/" + name.Name); err != nil {
		return fmt.Errorf("close the connections to %s: %w", name, err)
	}
	return nil
}

// SetUp makes a manager run the controller, over so many clusters at a time.
func (c *Cluster) SetUp(manager ctrl.Manager, concurrency int) error {
	ours := builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	ofCluster := handler.EnqueueRequestsFromMapFunc(clusterOf)
	return ctrl.NewControllerManagedBy(manager).
		For(&v1alpha1.TickMeshCluster{}, ours).
		Owns(&appsv1.StatefulSet{}).Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).Owns(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		Owns(&policyv1.PodDisruptionBudget{}).Owns(&networkingv1.NetworkPolicy{}).Owns(&autoscalingv2.HorizontalPodAutoscaler{}).
		Owns(&v1alpha1.TickMeshRestore{}).
		Watches(&corev1.Pod{}, ofCluster).Watches(&corev1.PersistentVolumeClaim{}, ofCluster).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.allClusters), builder.WithPredicates(machineChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, RateLimiter: passDelays()}).
		Complete(c)
}

// clusterOf returns the cluster that a pod or a claim belongs to, by its labels.
func clusterOf(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[build.LabelCluster]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}

// allClusters returns all clusters: any of them may use a machine.
func (c *Cluster) allClusters(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.TickMeshClusterList
	if err := c.scope.Client.List(ctx, &list); err != nil {
		return nil // each cluster is looked at soon anyway
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// machineChanged leaves out the heartbeats of machines.
func machineChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isNode := e.ObjectOld.(*corev1.Node)
		after, stays := e.ObjectNew.(*corev1.Node)
		return !isNode || !stays || len(before.Spec.Taints) != len(after.Spec.Taints) || readiness(before) != readiness(after)
	}}
}

func readiness(machine *corev1.Node) corev1.ConditionStatus {
	for i := range machine.Status.Conditions {
		if machine.Status.Conditions[i].Type == corev1.NodeReady {
			return machine.Status.Conditions[i].Status
		}
	}
	return corev1.ConditionUnknown
}
