package controller

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	reconcilers "github.com/tickmesh/tickmesh/operator/reconcile"
)

// +kubebuilder:rbac:groups=tickmesh.dev,resources=tickmeshbackups,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=tickmesh.dev,resources=tickmeshbackups/status;tickmeshbackupschedules/status;tickmeshrestores/status,verbs=patch
// +kubebuilder:rbac:groups=tickmesh.dev,resources=tickmeshbackups/finalizers;tickmeshrestores/finalizers,verbs=update
// +kubebuilder:rbac:groups=tickmesh.dev,resources=tickmeshbackupschedules,verbs=get;list;watch
// +kubebuilder:rbac:groups=tickmesh.dev,resources=tickmeshrestores,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete

// Backup is the controller of TickMeshBackup.
type Backup struct{ scope *reconcilers.Scope }

// Restore is the controller of TickMeshRestore.
type Restore struct{ scope *reconcilers.Scope }

// Schedule is the controller of TickMeshBackupSchedule.
type Schedule struct{ scope *reconcilers.Scope }

var (
	_ reconcile.Reconciler = (*Backup)(nil)
	_ reconcile.Reconciler = (*Restore)(nil)
	_ reconcile.Reconciler = (*Schedule)(nil)
)

// NewBackup makes the controller.
func NewBackup(scope *reconcilers.Scope) *Backup { return &Backup{scope} }

// NewRestore makes the controller.
func NewRestore(scope *reconcilers.Scope) *Restore { return &Restore{scope} }

// NewSchedule makes the controller.
func NewSchedule(scope *reconcilers.Scope) *Schedule { return &Schedule{scope} }

// Reconcile makes one pass over a backup.
func (b *Backup) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return onePass(ctx, b.scope, request, &v1alpha1.TickMeshBackup{}, reconcilers.Backup)
}

// Reconcile makes one pass over a restore.
func (r *Restore) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return onePass(ctx, r.scope, request, &v1alpha1.TickMeshRestore{}, reconcilers.Restore)
}

// Reconcile makes one pass over a schedule.
func (s *Schedule) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return onePass(ctx, s.scope, request, &v1alpha1.TickMeshBackupSchedule{}, reconcilers.Schedule)
}

// onePass reads an object, if it is there, and makes a pass over it. Conflicts are no
// errors: what was decided is decided anew on what is there now.
func onePass[T client.Object](ctx context.Context, scope *reconcilers.Scope, request reconcile.Request, object T,
	pass func(context.Context, *reconcilers.Scope, T) (reconcilers.Result, error),
) (reconcile.Result, error) {
	if err := scope.Client.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	result, err := pass(ctx, scope, object)
	if reconcilers.Conflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return reconcile.Result{RequeueAfter: result.After}, err
}

// SetUp makes a manager run the controller, over so many backups at a time.
func (b *Backup) SetUp(manager ctrl.Manager, concurrency int) error {
	return ctrl.NewControllerManagedBy(manager).For(&v1alpha1.TickMeshBackup{}).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(byLabel(build.LabelBackup))).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).Complete(b)
}

// SetUp makes a manager run the controller, over so many restores at a time.
func (r *Restore) SetUp(manager ctrl.Manager, concurrency int) error {
	return ctrl.NewControllerManagedBy(manager).For(&v1alpha1.TickMeshRestore{}).Owns(&batchv1.Job{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).Complete(r)
}

// SetUp makes a manager run the controller, over so many schedules at a time.
func (s *Schedule) SetUp(manager ctrl.Manager, concurrency int) error {
	return ctrl.NewControllerManagedBy(manager).For(&v1alpha1.TickMeshBackupSchedule{}).
		Watches(&v1alpha1.TickMeshBackup{}, handler.EnqueueRequestsFromMapFunc(byLabel(v1alpha1.LabelSchedule))).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).Complete(s)
}

// byLabel returns what a label of an object names.
func byLabel(label string) handler.MapFunc {
	return func(_ context.Context, object client.Object) []reconcile.Request {
		name := object.GetLabels()[label]
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
	}
}
