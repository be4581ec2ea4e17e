package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TickMeshBackupSchedule makes backups at set times, one at a time, and deletes old ones.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=tmbs
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastScheduledAt`
// +kubebuilder:printcolumn:name="Last success",type=date,JSONPath=`.status.lastSuccessAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name becomes part of the names of backups: choose one of at most 40 small letters, digits and inner hyphens"
type TickMeshBackupSchedule struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	Spec TickMeshBackupScheduleSpec `json:"spec"`
	// What has become of it.
	// +optional
	Status TickMeshBackupScheduleStatus `json:"status,omitzero"`
}

// TickMeshBackupScheduleList is a list of schedules.
//
// +kubebuilder:object:root=true
type TickMeshBackupScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TickMeshBackupSchedule `json:"items"`
}

// TickMeshBackupScheduleSpec is when backups are made.
type TickMeshBackupScheduleSpec struct {
	// When, as cron says it: minute, hour, day of the month, month, day of the week; or
	// @hourly, @daily, @weekly, @monthly.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^ @]+( +[^ ]+){4})$')",message="schedule must have the five fields of cron, as in '30 2 * * *', or be @hourly, @daily, @weekly or @monthly"
	Schedule string `json:"schedule"`
	// Time zone of the schedule, as Europe/Berlin. Default: UTC.
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// While true no backup is made. Default: false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// How many complete backups are kept: older ones are deleted with their data. Default: 7.
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Keep int32 `json:"keep,omitempty"`
	// The backups.
	Template BackupTemplate `json:"template"`
}

// BackupTemplate describes the backups of a schedule. A change counts for the next one.
type BackupTemplate struct {
	// Labels of the backups.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Spec of the backups.
	Spec TickMeshBackupSpec `json:"spec"`
}

// TickMeshBackupScheduleStatus is what has become of a schedule.
type TickMeshBackupScheduleStatus struct {
	// Generation of the spec that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Ready: False when the schedule or its time zone cannot be read.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// The time that the last backup was made for.
	// +optional
	LastScheduledAt *metav1.Time `json:"lastScheduledAt,omitempty"`
	// The next time.
	// +optional
	NextScheduledAt *metav1.Time `json:"nextScheduledAt,omitempty"`
	// When the last backup was complete.
	// +optional
	LastSuccessAt *metav1.Time `json:"lastSuccessAt,omitempty"`
	// Name of the last complete backup.
	// +optional
	LastSuccess string `json:"lastSuccess,omitempty"`
	// Name of the backup that runs.
	// +optional
	Active string `json:"active,omitempty"`
}

// LabelSchedule of a TickMeshBackup names the schedule that made it. A schedule is no
// owner, so that backups outlive it.
const LabelSchedule = Group + "/schedule"

// ConditionReady of a schedule: its times can be read. Of a cluster: it is Available, and as its
// spec asks for, as tools want to know that wait for whatever they have applied.
const ConditionReady = "Ready"
