package backup

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod(job *batchv1.Job, code int32, ended int64, message string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Message: message, FinishedAt: metav1.NewTime(time.Unix(ended, 0)),
	}}}}
	return p
}

func TestObserve(t *testing.T) {
	job := func(kind batchv1.JobConditionType) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: "u"}}
		if kind != "" {
			j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Message: "of the Job"}}
		}
		return j
	}
	other := job("")
	other.UID = "other"
	const report = `{"name":"b","cluster":"demo","samples":5,"series":2,"bytes":9}`
	done, failed := job(batchv1.JobComplete), job(batchv1.JobFailed)
	for name, c := range map[string]struct {
		job     *batchv1.Job
		pods    []corev1.Pod
		state   JobState
		samples int64
		message string
	}{
		"absent":          {},
		"runs":            {job: job(""), state: JobRunning},
		"runs after one":  {job: job(""), pods: []corev1.Pod{pod(job(""), 1, 1, "oh")}, state: JobRunning, message: "oh"},
		"done":            {job: done, pods: []corev1.Pod{pod(done, 1, 9, "oh"), pod(done, 0, 5, report+"\n")}, state: JobComplete, samples: 5},
		"done, no pod":    {job: done, state: JobComplete, samples: -1},
		"done, no report": {job: done, pods: []corev1.Pod{pod(done, 0, 5, "hello")}, state: JobComplete, samples: -1},
		"failed":          {job: failed, pods: []corev1.Pod{pod(failed, 1, 9, " last "), pod(failed, 1, 5, "first")}, state: JobFailed, message: "last"},
		"failed, no pod":  {job: failed, pods: []corev1.Pod{pod(other, 1, 9, "of others")}, state: JobFailed, message: "of the Job"},
		"failed, long":    {job: failed, pods: []corev1.Pod{pod(failed, 1, 9, strings.Repeat("x", 5000))}, state: JobFailed, message: strings.Repeat("x", messageBytesMax)},
	} {
		got := Observe(c.job, c.pods)
		samples := int64(-1)
		if got.Report != nil {
			samples = got.Report.Samples
		}
		if c.state != JobComplete {
			c.samples = -1
		}
		if got.State != c.state || got.Message != c.message || samples != c.samples {
			t.Errorf("%s: %+v, %d samples", name, got, samples)
		}
	}
	ending := job("")
	ending.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if got := Observe(ending, nil); got.State != JobRunning {
		t.Errorf("%+v", got)
	}
}

// FuzzReport reads any text as a report.
func FuzzReport(f *testing.F) {
	f.Add(`{"name":"b","samples":5}`)
	f.Fuzz(func(t *testing.T, text string) {
		if r := parseReport(text); r != nil && r.Name == "" {
			t.Fatal("a report of nothing")
		}
	})
}
