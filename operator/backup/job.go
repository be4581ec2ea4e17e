package backup

import (
	"encoding/json"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobState is how far a Job is.
type JobState string

// Values of JobState.
const (
	JobAbsent   JobState = ""         // it was not made yet, or somebody has deleted it
	JobRunning  JobState = "Running"  // it has not ended, or it is being deleted
	JobComplete JobState = "Complete" // it has done its work
	JobFailed   JobState = "Failed"   // it was given up
)

// Job is what is seen of a Job.
type Job struct {
	State   JobState
	EndedAt time.Time // when it was complete or given up
	Report  *Report   // of a complete one; nil: its pod is gone, or told nothing
	Message string    // what its last pod said at the end
}

// Report is what commands tell of a backup: the file of --report.
type Report struct {
	Name         string `json:"name"`
	Cluster      string `json:"cluster"`
	StartedMs    int64  `json:"started_ms"`
	FinishedMs   int64  `json:"finished_ms"`
	Samples      int64  `json:"samples"`
	Series       int64  `json:"series"`
	Bytes        int64  `json:"bytes"`
	WrittenBytes int64  `json:"written_bytes"`
}

// messageBytesMax bounds what is told of a failed Job; an event has room for 1 KiB.
const messageBytesMax = 800

// Observe describes a Job, nil if it is not there, and its pods.
func Observe(job *batchv1.Job, pods []corev1.Pod) Job {
	if job == nil {
		return Job{}
	}
	seen := Job{State: JobRunning}
	if job.DeletionTimestamp != nil {
		return seen
	}
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			seen.State, seen.EndedAt = JobComplete, c.LastTransitionTime.Time
		case c.Type == batchv1.JobFailed:
			seen.State, seen.EndedAt, seen.Message = JobFailed, c.LastTransitionTime.Time, c.Message
		}
	}
	ended := lastEnded(job, pods, seen.State == JobComplete)
	if ended == nil {
		return seen
	}
	if seen.State == JobComplete {
		seen.Report = parseReport(ended.Message)
		return seen
	}
	if text := strings.TrimSpace(ended.Message); text != "" {
		seen.Message = strings.ToValidUTF8(text[max(0, len(text)-messageBytesMax):], "")
	}
	return seen
}

// lastEnded returns how the container of the Job's last pod ended that succeeded, or did not.
func lastEnded(job *batchv1.Job, pods []corev1.Pod, succeeded bool) (last *corev1.ContainerStateTerminated) {
	for i := range pods {
		if !metav1.IsControlledBy(&pods[i], job) {
			continue
		}
		for j := range pods[i].Status.ContainerStatuses {
			t := pods[i].Status.ContainerStatuses[j].State.Terminated
			if t != nil && (t.ExitCode == 0) == succeeded && (last == nil || last.FinishedAt.Before(&t.FinishedAt)) {
				last = t
			}
		}
	}
	return last
}

// parseReport returns the report in a termination message; nil: there is none.
func parseReport(message string) *Report {
	var r Report
	if json.Unmarshal([]byte(message), &r) != nil || r.Name == "" {
		return nil
	}
	return &r
}
