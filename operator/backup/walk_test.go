package backup

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// world is a backup, its Jobs, and what they have done.
type world struct {
	t       *rapid.T
	now     time.Time
	object  v1alpha1.TickMeshBackup
	gone    bool // the object
	held    bool
	cluster ClusterState
	jobs    map[Action]*Job
	data    bool // something may have been written
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: time.Unix(1_700_000_000, 0), cluster: ClusterState{Exists: true, UID: "u"}, jobs: map[Action]*Job{}}
	w.object.Name, w.object.Generation = "b", 1
	w.object.Spec.Verify = rapid.Bool().Draw(t, "verify")
	w.object.Spec.DeletionPolicy = rapid.SampledFrom([]v1alpha1.DeletionPolicy{"", v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete}).Draw(t, "policy")
	w.object.Spec.TTL = rapid.SampledFrom([]v1alpha1.Duration{"", "0", "1h"}).Draw(t, "ttl")
	return w
}

func (w *world) job(a Action) Job {
	if j := w.jobs[a]; j != nil {
		return *j
	}
	return Job{}
}

// pass makes one pass, which may be cut short before its action.
func (w *world) pass(killed bool) Decision {
	f := &BackupFacts{Now: w.now, Cluster: w.cluster, Held: w.held, Backup: w.job(ActionBackup), Verify: w.job(ActionVerify), Delete: w.job(ActionDelete)}
	before := w.object.DeepCopy()
	d := PlanBackup(&w.object, f)
	w.check(before, f, d)
	if killed {
		return d
	}
	switch d.Action {
	case ActionHold:
		w.held = true
	case ActionBackup, ActionVerify, ActionDelete:
		w.jobs[d.Action] = &Job{State: JobRunning}
		w.data = w.data || d.Action == ActionBackup
	case ActionStop:
		delete(w.jobs, ActionBackup)
		delete(w.jobs, ActionVerify)
	case ActionRetryDelete:
		delete(w.jobs, ActionDelete)
	case ActionRelease:
		w.held = false
	case ActionDeleteObject:
		w.object.Annotations = map[string]string{v1alpha1.AnnotationExpired: "true"}
		w.deleteObject()
	case ActionNone, ActionRestore, ActionCompare:
	}
	if w.object.DeletionTimestamp != nil && !w.held {
		w.gone = true
	}
	return d
}

func (w *world) deleteObject() {
	if w.object.DeletionTimestamp == nil {
		w.object.DeletionTimestamp = &metav1.Time{Time: w.now}
	}
}

// check holds a decision to what has to be true of every one.
func (w *world) check(before *v1alpha1.TickMeshBackup, f *BackupFacts, d Decision) {
	s := &w.object.Status
	complete, failed := meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionComplete), meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionFailed)
	deleting := w.object.DeletionTimestamp != nil
	verified := meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionVerified)
	switch {
	case complete && failed:
		w.t.Fatal("complete and failed")
	case Ended(&before.Status.JobStatus) && !deleting && (complete != meta.IsStatusConditionTrue(before.Status.Conditions, v1alpha1.ConditionComplete)):
		w.t.Fatal("an end is taken back")
	case complete && !Ended(&before.Status.JobStatus) && (f.Backup.State != JobComplete || w.object.Spec.Verify && f.Verify.State != JobComplete):
		w.t.Fatal("complete too early")
	case complete && w.object.Spec.Verify && !verified:
		w.t.Fatal("complete and not verified")
	case Ended(&s.JobStatus) && s.FinishedAt == nil:
		w.t.Fatal("no end")
	case d.Action == ActionBackup && (!f.Held || s.StartedAt == nil || deleting):
		w.t.Fatal("a backup begins whose data nobody would delete")
	case d.Action == ActionDelete && (!deleting || f.Backup.State == JobRunning || f.Verify.State == JobRunning):
		w.t.Fatal("data are deleted that are being written")
	case d.Action == ActionRelease && w.data && f.Delete.State != JobComplete && !w.retained():
		w.t.Fatal("data are forgotten")
	case d.Action == ActionDelete && w.retained():
		w.t.Fatal("data are deleted that are to stay")
	case d.Action == ActionDeleteObject && (f.Now.Before(s.FinishedAt.Add(time.Hour)) || w.object.Spec.TTL != "1h" || !complete):
		w.t.Fatal("deleted before its time")
	}
	for _, c := range s.Conditions {
		if c.ObservedGeneration != w.object.Generation || c.Reason == "" {
			w.t.Fatalf("%+v", c)
		}
	}
}

// TestWalks: whatever happens in whatever order, with operators killed at any time, no
// decision does harm; and when nothing fails any more, all ends as it should.
func TestWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if w.gone {
				return
			}
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				w.cluster = ClusterState{Exists: rapid.Bool().Draw(t, "exists"), Paused: rapid.Bool().Draw(t, "paused"), UID: "u"}
			case 1:
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "minutes")) * time.Minute)
			case 2:
				if rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
					w.deleteObject()
				}
			case 3, 4:
				w.endJob()
			case 5:
				if len(w.jobs) > 0 && rapid.IntRange(0, 3).Draw(t, "vanish") == 0 {
					delete(w.jobs, rapid.SampledFrom([]Action{ActionBackup, ActionVerify, ActionDelete}).Draw(t, "job"))
				}
			default:
				w.pass(rapid.IntRange(0, 4).Draw(t, "killed") == 0)
			}
		}
		w.settle()
	})
}

// retained reports whether the data outlive the object.
func (w *world) retained() bool {
	return w.object.Spec.DeletionPolicy != v1alpha1.DeletionPolicyDelete && w.object.Annotations[v1alpha1.AnnotationExpired] == ""
}

// endJob ends a Job somehow.
func (w *world) endJob() {
	a := rapid.SampledFrom([]Action{ActionBackup, ActionVerify, ActionDelete}).Draw(w.t, "job")
	if j := w.jobs[a]; j != nil && j.State == JobRunning {
		*j = Job{State: JobComplete, EndedAt: w.now, Report: &Report{Name: "b", Samples: 7}}
		if rapid.IntRange(0, 2).Draw(w.t, "fails") == 0 {
			*j = Job{State: JobFailed, EndedAt: w.now, Message: "why"}
		} else if a == ActionDelete {
			w.data = false
		}
	}
}

// settle lets everything succeed.
func (w *world) settle() {
	w.cluster = ClusterState{Exists: true, UID: "u"}
	for range 20 {
		if w.gone {
			return
		}
		d := w.pass(false)
		if Ended(&w.object.Status.JobStatus) && w.object.DeletionTimestamp == nil && d.Action == ActionNone {
			w.deleteObject()
		}
		for a, j := range w.jobs {
			if j.State == JobRunning {
				*j = Job{State: JobComplete, EndedAt: w.now}
				w.data = w.data && a != ActionDelete
			}
		}
		w.now = w.now.Add(11 * time.Minute)
	}
	w.t.Fatalf("it does not end: %+v %+v", w.object.Status, w.jobs)
}

// TestRestores: the steps of a restore, one after the other.
func TestRestores(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	ready := ClusterState{Exists: true}
	source := func(kind string) *v1alpha1.TickMeshBackup {
		b := &v1alpha1.TickMeshBackup{}
		if kind != "" {
			meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "x"})
		}
		return b
	}
	done, failed := Job{State: JobComplete, Report: &Report{Name: "b", Samples: 5}}, Job{State: JobFailed, Message: "why"}
	for name, step := range map[string]struct {
		facts  RestoreFacts
		verify bool
		target bool
		action Action
		phase  v1alpha1.JobPhase
		reason string
	}{
		"no cluster":         {facts: RestoreFacts{}, phase: v1alpha1.JobPhasePending, reason: ReasonClusterNotFound},
		"paused":             {facts: RestoreFacts{Cluster: ClusterState{Exists: true, Paused: true}}, phase: v1alpha1.JobPhasePending, reason: ReasonClusterPaused},
		"no backup":          {facts: RestoreFacts{Cluster: ready}, phase: v1alpha1.JobPhasePending, reason: ReasonBackupNotFound},
		"not complete":       {facts: RestoreFacts{Cluster: ready, Source: source("")}, phase: v1alpha1.JobPhasePending, reason: ReasonBackupNotComplete},
		"failed backup":      {facts: RestoreFacts{Cluster: ready, Source: source(v1alpha1.ConditionFailed)}, phase: v1alpha1.JobPhaseFailed, reason: ReasonBackupNotComplete},
		"begins":             {facts: RestoreFacts{Cluster: ready, Source: source(v1alpha1.ConditionComplete)}, action: ActionRestore, phase: v1alpha1.JobPhaseRunning, reason: ReasonRunning},
		"begins by place":    {facts: RestoreFacts{Cluster: ready}, target: true, action: ActionRestore, phase: v1alpha1.JobPhaseRunning, reason: ReasonRunning},
		"runs":               {facts: RestoreFacts{Restore: Job{State: JobRunning}}, phase: v1alpha1.JobPhaseRunning, reason: ReasonRunning},
		"fails":              {facts: RestoreFacts{Restore: failed}, phase: v1alpha1.JobPhaseFailed, reason: ReasonRestoreFailed},
		"complete":           {facts: RestoreFacts{Restore: done}, phase: v1alpha1.JobPhaseComplete, reason: ReasonWritten},
		"compares":           {facts: RestoreFacts{Restore: done}, verify: true, target: true, action: ActionCompare, phase: v1alpha1.JobPhaseVerifying, reason: ReasonVerifying},
		"nothing to compare": {facts: RestoreFacts{Restore: done}, verify: true, phase: v1alpha1.JobPhaseFailed, reason: ReasonBackupNotFound},
		"differs":            {facts: RestoreFacts{Restore: done, Compare: failed}, verify: true, phase: v1alpha1.JobPhaseFailed, reason: ReasonCompareFailed},
		"compared":           {facts: RestoreFacts{Restore: done, Compare: done}, verify: true, phase: v1alpha1.JobPhaseComplete, reason: ReasonVerified},
	} {
		r := &v1alpha1.TickMeshRestore{}
		r.Spec.Verify = step.verify
		if r.Spec.Source.BackupName = "b"; step.target {
			r.Spec.Source = v1alpha1.RestoreSource{Target: &v1alpha1.BackupTarget{}, Position: "b"}
		}
		step.facts.Now = now
		d := PlanRestore(r, &step.facts)
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionComplete)
		if d.Action != step.action || r.Status.Phase != step.phase || c == nil || c.Reason != step.reason {
			t.Errorf("%s: %+v, %+v", name, d, r.Status)
		}
		after := r.Status.DeepCopy()
		if PlanRestore(r, &step.facts); !metaEqual(after.Conditions, r.Status.Conditions) || r.Status.Phase != after.Phase {
			t.Errorf("%s: a second pass changes %+v to %+v", name, after, r.Status)
		}
	}
}

func metaEqual(a, b []metav1.Condition) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// A cluster waits for what runs, and what waits for the cluster does not run: an operator that is killed
// before it makes the Job, or a Job that somebody deletes, does not have the two wait for each other.
func TestRuns(t *testing.T) {
	cluster, running := ClusterState{Exists: true, UID: "u"}, Job{State: JobRunning}
	b, r := &v1alpha1.TickMeshBackup{}, &v1alpha1.TickMeshRestore{}
	pass := func(job Job) (bool, bool) {
		PlanBackup(b, &BackupFacts{Cluster: cluster, Held: true, Backup: job})
		PlanRestore(r, &RestoreFacts{Cluster: cluster, Restore: job})
		return Runs(&b.Status.JobStatus), Runs(&r.Status.JobStatus)
	}
	if backup, restore := pass(Job{}); !backup || !restore || b.Status.StartedAt == nil || r.Status.StartedAt == nil {
		t.Fatal("they do not begin")
	}
	cluster.Rests = true
	if backup, restore := pass(running); !backup || !restore {
		t.Error("Jobs run, and the cluster does not wait for them")
	}
	if backup, restore := pass(Job{}); backup || restore {
		t.Errorf("the cluster waits for what waits for it: %+v, %+v", b.Status, r.Status)
	}
	cluster.Rests = false
	if backup, restore := pass(Job{}); !backup || !restore {
		t.Error("they do not begin when it is awake")
	}
}
