package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AnnotationMaintainUntil of a TickMeshCluster has a time, as RFC 3339 says it, until which the
// operator may restart pods outside the maintenance windows.
const AnnotationMaintainUntil = Group + "/maintain-until"

// MaintenanceSpec is when the operator may restart pods for reasons of its own: other
// templates, images and CAs of certificates.
type MaintenanceSpec struct {
	// Windows of time in which pods may be restarted. None: at any time.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Windows []MaintenanceWindow `json:"windows,omitempty"`
}

// MaintenanceWindow is a length of time that begins again and again.
type MaintenanceWindow struct {
	// When it begins, as cron says it: minute, hour, day of the month, month, day of the week,
	// as "0 2 * * 6" for two o'clock on Saturdays; or @daily, @weekly, @monthly.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^ @]+( +[^ ]+){4})$')",message="schedule must have the five fields of cron, as in '0 2 * * 6', or be @daily, @weekly or @monthly"
	Schedule string `json:"schedule"`
	// How long it lasts: 15m to 7d.
	// +kubebuilder:validation:XValidation:rule="!self.endsWith('y') && (self.endsWith('d') ? int(self.substring(0, size(self) - 1)) <= 7 : self.endsWith('w') ? self == '1w' : duration(self) >= duration('15m') && duration(self) <= duration('168h'))",message="duration must be 15m to 7d: a node takes minutes to restart, and a week is no window any more"
	Duration Duration `json:"duration"`
	// Time zone of the schedule, as Europe/Berlin. Default: UTC.
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

// MaintenanceStatus describes the maintenance windows.
type MaintenanceStatus struct {
	// Pods may be restarted now.
	// +optional
	Open bool `json:"open"`
	// Until when that is so; not set: for ever.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// Components whose pods wait for the next window.
	// +listType=atomic
	// +optional
	Waiting []string `json:"waiting,omitempty"`
}
