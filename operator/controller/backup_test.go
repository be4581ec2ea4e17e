package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/backup"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/controller"
	"github.com/tickmesh/tickmesh/operator/objects"
	"github.com/tickmesh/tickmesh/operator/reconcile"
)

// vault is a namespace of a real API server with backups, an obvious controller of Jobs,
// and an operator that can be killed.
type vault struct {
	world
	backups   *controller.Backup
	restores  *controller.Restore
	schedules *controller.Schedule
	fails     map[string]bool // Jobs that are given up, by the end of their name
	ran       []string        // Jobs that have ended
}

func newVault(t *testing.T) *vault {
	t.Helper()
	s := kubernetes(t)
	v := &vault{world: world{
		t: t, api: s.writes.remembering(s.client), namespace: s.namespace(t), now: time.Now().Truncate(time.Second), recorded: events.NewFakeRecorder(1000),
	}, fails: map[string]bool{}}
	v.operate(0)
	v.create("nodes: {count: 3}")
	return v
}

// operate starts another operator, which dies after so many writes; 0: it lives on.
func (v *vault) operate(writes int) {
	v.life = &life{limit: writes}
	reader := apiServer.writes.remembering(apiServer.operatorClient)
	scope := &reconcile.Scope{
		Client: v.life.mortal(reader), Reader: reader, Events: v.recorded, Now: func() time.Time { return v.now },
		Defaults: build.Facts{Image: "tickmesh:test", EnvoyImage: "envoy:test", OperatorNamespace: "operators"},
	}
	v.backups, v.restores, v.schedules = controller.NewBackup(scope), controller.NewRestore(scope), controller.NewSchedule(scope)
}

// make makes an object from YAML of its spec.
func (v *vault) make(o client.Object, name, spec string, into any) {
	v.t.Helper()
	o.SetName(name)
	o.SetNamespace(v.namespace)
	v.must(yaml.UnmarshalStrict([]byte(spec), into))
	v.must(v.api.Create(v.t.Context(), o))
}

const target = "clusterRef: {name: demo}\ntarget: {volume: {claimName: backups}}\n"

func (v *vault) makeBackup(name, more string) {
	v.t.Helper()
	b := &v1alpha1.TickMeshBackup{}
	v.make(b, name, target+more, &b.Spec)
}

// backup returns a backup; nil: it is gone.
func (v *vault) backup(name string) *v1alpha1.TickMeshBackup {
	v.t.Helper()
	b := &v1alpha1.TickMeshBackup{}
	if !v.found(v.api.Get(v.t.Context(), v.key(name), b)) {
		return nil
	}
	return b
}

// step makes a pass over everything, and reports whether the operator was killed. Then Jobs
// end.
func (v *vault) step() (killed bool) {
	v.t.Helper()
	v.now = v.now.Add(time.Second)
	var backups v1alpha1.TickMeshBackupList
	var restores v1alpha1.TickMeshRestoreList
	var schedules v1alpha1.TickMeshBackupScheduleList
	passes := map[ctrlreconcile.Request]ctrlreconcile.Reconciler{}
	for reconciler, list := range map[ctrlreconcile.Reconciler]client.ObjectList{v.backups: &backups, v.restores: &restores, v.schedules: &schedules} {
		v.must(v.api.List(v.t.Context(), list, client.InNamespace(v.namespace)))
		v.must(meta.EachListItem(list, func(o runtime.Object) error {
			passes[ctrlreconcile.Request{NamespacedName: v.key(o.(client.Object).GetName())}] = reconciler
			return nil
		}))
	}
	for request, reconciler := range passes {
		_, err := reconciler.Reconcile(v.t.Context(), request)
		if errors.Is(err, errKilled) {
			killed = true
			continue
		}
		v.must(err)
	}
	v.runJobs()
	return killed
}

// runJobs ends Jobs, and deletes those that are deleted.
func (v *vault) runJobs() {
	v.t.Helper()
	var jobs batchv1.JobList
	v.must(v.api.List(v.t.Context(), &jobs, client.InNamespace(v.namespace)))
	for i := range jobs.Items {
		j := &jobs.Items[i]
		switch {
		case j.DeletionTimestamp != nil:
			before := j.DeepCopy()
			j.Finalizers = nil
			v.must(v.api.Patch(v.t.Context(), j, client.MergeFrom(before)))
		case j.Status.CompletionTime == nil && len(j.Status.Conditions) == 0:
			v.endJob(j)
		}
	}
}

// endJob lets a Job end, with a pod that told what it did.
func (v *vault) endJob(j *batchv1.Job) {
	v.t.Helper()
	fails := false
	for end := range v.fails {
		fails = fails || strings.HasSuffix(j.Name, end)
	}
	ended := corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(v.now), Message: fmt.Sprintf(`{"name":%q,"samples":42,"series":7,"bytes":9}`, j.Name)}
	if fails {
		ended.ExitCode, ended.Message = 1, "the reason"
	}
	pod := &corev1.Pod{ObjectMeta: *j.Spec.Template.ObjectMeta.DeepCopy(), Spec: j.Spec.Template.Spec}
	pod.Name, pod.Namespace = j.Name+"-x", j.Namespace
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels["batch.kubernetes.io/job-name"] = j.Name
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
	_ = v.api.Delete(v.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}, client.GracePeriodSeconds(0)) // of a Job before
	v.must(v.api.Create(v.t.Context(), pod))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "backup", State: corev1.ContainerState{Terminated: &ended}}}
	v.must(v.api.Status().Update(v.t.Context(), pod))
	at := metav1.NewTime(v.now)
	j.Status.StartTime = &at
	kinds := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	if fails {
		kinds = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
	} else {
		j.Status.CompletionTime, j.Status.Succeeded = &at, 1
	}
	for _, kind := range kinds {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at, LastProbeTime: at})
	}
	v.must(v.api.Status().Update(v.t.Context(), j))
	v.ran = append(v.ran, j.Name)
}

func (v *vault) until(what string, is func() bool) {
	v.t.Helper()
	for range 30 {
		if is() {
			return
		}
		v.step()
	}
	v.t.Fatalf("never: %s; Jobs that ended: %v", what, v.ran)
}

func (v *vault) ended(name string) func() bool {
	return func() bool {
		b := v.backup(name)
		return b != nil && backup.Ended(&b.Status.JobStatus)
	}
}

// A backup is written, verified, kept for its time, and deleted with its data.
func TestBackup(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.makeBackup("monday", "verify: true\nttl: 1h\n")
	v.until("the backup is complete", v.ended("monday"))
	b := v.backup("monday")
	s := &b.Status
	if s.Phase != v1alpha1.JobPhaseComplete || s.Samples != 42 || s.Series != 7 || s.Bytes != 9 || s.Position != "monday" || s.ClusterID != string(v.cluster().UID) ||
		!meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionComplete) || !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionVerified) ||
		s.StartedAt == nil || s.FinishedAt == nil || s.ObservedGeneration != b.Generation {
		t.Errorf("%+v", s)
	}
	v.step()
	if len(v.ran) != 2 {
		t.Errorf("Jobs: %v", v.ran)
	}
	v.now = v.now.Add(time.Hour)
	v.until("the backup is gone", func() bool { return v.backup("monday") == nil })
	if last := v.ran[len(v.ran)-1]; last != "monday-delete" || len(v.ran) != 3 {
		t.Errorf("Jobs: %v", v.ran)
	}
	if told := v.events(backup.ReasonExpired); len(told) != 1 {
		t.Errorf("events: %v", told)
	}
}

// What fails is told, with what its pod said, and can be deleted.
func TestBackupFails(t *testing.T) {
	t.Parallel()
	for end, reason := range map[string]string{"-backup": backup.ReasonBackupFailed, "-verify": backup.ReasonVerifyFailed} {
		v := newVault(t)
		v.fails[end] = true
		v.makeBackup("monday", "verify: true\ndeletionPolicy: Delete\n")
		v.until("the backup has failed", v.ended("monday"))
		c := meta.FindStatusCondition(v.backup("monday").Status.Conditions, v1alpha1.ConditionFailed)
		if c.Status != metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, "the reason") {
			t.Errorf("%+v", c)
		}
		// The data cannot be deleted at first, and the cluster is gone by then.
		v.must(v.api.Delete(t.Context(), v.cluster()))
		v.fails["-delete"] = true
		v.must(v.api.Delete(t.Context(), v.backup("monday")))
		v.until("it says why it stays", func() bool {
			c := meta.FindStatusCondition(v.backup("monday").Status.Conditions, v1alpha1.ConditionComplete)
			return c.Reason == backup.ReasonDeleteFailed && strings.Contains(c.Message, backup.Finalizer)
		})
		delete(v.fails, "-delete")
		v.now = v.now.Add(10 * time.Minute)
		v.until("the backup is gone", func() bool { return v.backup("monday") == nil })
	}
}

// A backup without a cluster waits, and holds nothing when it is deleted.
// Deleting a backup leaves its data where they are, unless it is asked for.
func TestBackupRetained(t *testing.T) {
	t.Parallel()
	for policy, jobs := range map[string]string{"": "monday-backup", "deletionPolicy: Delete\n": "monday-backup monday-delete"} {
		v := newVault(t)
		v.makeBackup("monday", policy)
		v.until("the backup is complete", v.ended("monday"))
		v.must(v.api.Delete(t.Context(), v.backup("monday")))
		v.until("the backup is gone", func() bool { return v.backup("monday") == nil })
		if ran := strings.Join(v.ran, " "); ran != jobs {
			t.Errorf("%q: Jobs %s, want %s", policy, ran, jobs)
		}
		if told := v.events(backup.ReasonRetained); len(told) == 0 != (policy != "") {
			t.Errorf("%q: told %q", policy, told)
		}
	}
}

func TestBackupWaits(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.must(v.api.Delete(t.Context(), v.cluster()))
	v.makeBackup("early", "")
	v.until("it says what it waits for", func() bool {
		c := meta.FindStatusCondition(v.backup("early").Status.Conditions, v1alpha1.ConditionComplete)
		return c != nil && c.Reason == backup.ReasonClusterNotFound
	})
	v.create("nodes: {count: 3}")
	v.until("it is complete", v.ended("early"))
	v.must(v.api.Delete(t.Context(), v.cluster()))
	v.makeBackup("never", "")
	v.step()
	v.must(v.api.Delete(t.Context(), v.backup("never")))
	if v.until("it is gone", func() bool { return v.backup("never") == nil }); len(v.ran) != 1 {
		t.Errorf("Jobs: %v", v.ran)
	}
}

// An operator can be killed between any two writes of a backup's life.
func TestBackupKilled(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		v := newVault(t)
		v.operate(n)
		v.makeBackup("monday", "verify: true\nttl: 1h\n")
		killed := false
		for range 12 {
			if v.step() {
				killed = true
				v.operate(0)
			}
		}
		if !v.ended("monday")() {
			t.Fatalf("killed at write %d: %+v", n, v.backup("monday").Status)
		}
		v.now = v.now.Add(time.Hour)
		for range 12 {
			if v.step() {
				killed = true
				v.operate(0)
			}
		}
		if v.backup("monday") != nil || strings.Join(v.ran, " ") != "monday-backup monday-verify monday-delete" {
			t.Fatalf("killed at write %d: %v", n, v.ran)
		}
		if !killed {
			return
		}
	}
}

// A restore waits for its backup, writes, and compares.
func TestRestore(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := &v1alpha1.TickMeshRestore{}
	v.make(r, "back", "clusterRef: {name: demo}\nsource: {backupName: monday}\nverify: true\n", &r.Spec)
	get := func() *v1alpha1.TickMeshRestore {
		r := &v1alpha1.TickMeshRestore{}
		v.must(v.api.Get(t.Context(), v.key("back"), r))
		return r
	}
	v.until("it waits", func() bool {
		c := meta.FindStatusCondition(get().Status.Conditions, v1alpha1.ConditionComplete)
		return c != nil && c.Reason == backup.ReasonBackupNotFound
	})
	v.makeBackup("monday", "")
	v.until("it is complete", func() bool { return backup.Ended(&get().Status.JobStatus) })
	s := get().Status
	if s.Phase != v1alpha1.JobPhaseComplete || s.Samples != 42 || !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionVerified) {
		t.Errorf("%+v", s)
	}
	if strings.Join(v.ran, " ") != "monday-backup back-restore back-compare" {
		t.Errorf("Jobs: %v", v.ran)
	}
}

// A restore has the keys of its backup, unless it names others.
func TestRestoreTakesTheKeysOfItsBackup(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.makeBackup("monday", "encryption: {recipients: [age1a], identitySecretName: mine}\nsigning: {secretName: sign, verifySecretName: trust}\n")
	for name, source := range map[string]string{
		"same":  "{backupName: monday}",
		"other": "{backupName: monday, identitySecretName: yours}",
		"place": "{target: {volume: {claimName: backups}}, position: monday, identitySecretName: yours, verifySecretName: known}",
	} {
		r := &v1alpha1.TickMeshRestore{}
		v.make(r, name, "clusterRef: {name: demo}\nsource: "+source+"\n", &r.Spec)
		v.until(name+" is complete", func() bool {
			v.must(v.api.Get(t.Context(), v.key(name), r))
			return backup.Ended(&r.Status.JobStatus)
		})
		job := &batchv1.Job{}
		v.must(v.api.Get(t.Context(), v.key(name+"-restore"), job))
		var secrets []string
		for _, volume := range job.Spec.Template.Spec.Volumes {
			if volume.Secret != nil && strings.HasPrefix(volume.Name, "keys-") {
				secrets = append(secrets, volume.Secret.SecretName)
			}
		}
		want := map[string]string{"same": "mine trust", "other": "yours trust", "place": "yours known"}[name]
		if got := strings.Join(secrets, " "); got != want {
			t.Errorf("%s: Secrets %q, expected %q", name, got, want)
		}
	}
}

// A schedule makes backups at their times, keeps some, and catches up once.
func TestSchedule(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	s := &v1alpha1.TickMeshBackupSchedule{}
	v.make(s, "hourly", "schedule: '0 * * * *'\nkeep: 2\ntemplate: {labels: {a: b}, spec: {clusterRef: {name: demo}, target: {volume: {claimName: backups}}}}\n", &s.Spec)
	list := func() (names []string) {
		var all v1alpha1.TickMeshBackupList
		v.must(v.api.List(t.Context(), &all, client.InNamespace(v.namespace), client.MatchingLabels{v1alpha1.LabelSchedule: "hourly", "a": "b"}))
		for i := range all.Items {
			names = append(names, all.Items[i].Name)
		}
		return names
	}
	seen := map[string]bool{}
	for n := range 4 {
		v.now = v.now.Add(time.Duration(1+2*n) * time.Hour)
		for range 8 {
			v.step()
			for _, name := range list() {
				seen[name] = true
			}
		}
		if len(seen) != n+1 {
			t.Fatalf("%d backups were made, want %d", len(seen), n+1)
		}
		// Of backups that were made within one second by the API server's clock the names
		// give the order.
		if kept := list(); len(kept) != min(n+1, 2) {
			t.Fatalf("kept: %v", kept)
		}
	}
	v.must(v.api.Get(t.Context(), v.key("hourly"), s))
	if s.Status.LastSuccess == "" || s.Status.Active != "" || s.Status.NextScheduledAt == nil || !meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("%+v", s.Status)
	}
}

// The manager hears of backups and their Jobs by itself.
func TestManagerOfBackups(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.api = apiServer.client // the manager writes by a client of its own
	scheme, err := controller.Scheme()
	v.must(err)
	manager, err := ctrl.NewManager(apiServer.operatorConfig, ctrl.Options{
		Scheme: scheme, Cache: controller.CacheOptions([]string{v.namespace}), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	v.must(err)
	scope := &reconcile.Scope{
		Client: manager.GetClient(), Reader: manager.GetAPIReader(), Events: manager.GetEventRecorder(objects.FieldOwner), Now: time.Now,
		Defaults: build.Facts{Image: "tickmesh:test", EnvoyImage: "envoy:test", OperatorNamespace: "operators"},
	}
	v.must(errors.Join(controller.NewBackup(scope).SetUp(manager, 1), controller.NewRestore(scope).SetUp(manager, 1), controller.NewSchedule(scope).SetUp(manager, 1)))
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Start(ctx) }()
	v.makeBackup("monday", "verify: true\ndeletionPolicy: Delete\n")
	r := &v1alpha1.TickMeshRestore{}
	v.make(r, "back", "clusterRef: {name: demo}\nsource: {target: {volume: {claimName: backups}}, position: monday}\n", &r.Spec)
	v.eventually("both end", func() bool {
		v.runJobs()
		v.must(v.api.Get(ctx, v.key("back"), r))
		return v.ended("monday")() && backup.Ended(&r.Status.JobStatus)
	})
	if s := v.backup("monday").Status; s.Samples != 42 || s.Phase != v1alpha1.JobPhaseComplete {
		t.Errorf("%+v", s)
	}
	v.must(v.api.Delete(ctx, v.backup("monday"), client.PropagationPolicy(metav1.DeletePropagationForeground)))
	v.eventually("only the collector of garbage holds it", func() bool {
		v.runJobs()
		b := v.backup("monday")
		return b == nil || len(b.Finalizers) == 1 && b.Finalizers[0] == metav1.FinalizerDeleteDependents
	})
	if last := v.ran[len(v.ran)-1]; last != "monday-delete" {
		t.Errorf("Jobs: %v", v.ran)
	}
	if b := v.backup("monday"); b != nil { // there is no such collector here
		b.Finalizers = nil
		v.must(v.api.Update(ctx, b))
	}
	v.eventually("the backup is gone", func() bool {
		v.runJobs()
		return v.backup("monday") == nil
	})
	cancel()
	v.must(<-stopped)
}

// A schedule is left to the operator that acts for its cluster.
func TestScheduleOfAnotherOperator(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	another := apiServer.namespace(t)
	c := v.cluster()
	c.Status.Operator = another
	v.must(v.api.Status().Update(t.Context(), c))
	v.lease(another, -2*time.Hour)
	s := &v1alpha1.TickMeshBackupSchedule{}
	v.make(s, "hourly", "schedule: '0 * * * *'\nkeep: 2\ntemplate: {spec: {clusterRef: {name: demo}, target: {volume: {claimName: backups}}}}\n", &s.Spec)
	made := func() int {
		var all v1alpha1.TickMeshBackupList
		v.must(v.api.List(t.Context(), &all, client.InNamespace(v.namespace)))
		return len(all.Items)
	}
	v.now = v.now.Add(time.Hour)
	for range 3 {
		v.step()
	}
	if made() != 0 || v.life.writes != 0 {
		t.Fatalf("%d backups, %d writes of an operator that another one excludes", made(), v.life.writes)
	}
	v.lease(another, 3*time.Hour) // its operator is gone
	v.step()
	if made() != 1 {
		t.Fatalf("%d backups", made())
	}
}
