// Package maintenance decides whether the pods of a cluster may be restarted now for reasons of the
// operator's own. It is pure.
//
// What waits for a window are other pod templates: settings, images, and the CAs that
// etcd's members read when they start. What does not wait: what is broken, lost or asked for by
// name (a scale, a drain, a restart by annotation).
package maintenance

import (
	"errors"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/calendar"
)

// State is whether pods may be restarted.
type State struct {
	Open bool
	// Until is when that changes; zero: never.
	Until time.Time
	// Problem describes what cannot be read of the windows or the annotation, or that no window ever
	// opens; nil: nothing. A window that cannot be read never opens.
	Problem error
}

// Decide returns the State of a cluster now.
func Decide(c *v1alpha1.TickMeshCluster, now time.Time) (s State) {
	spec := c.Spec.Maintenance
	if spec == nil || len(spec.Windows) == 0 {
		return State{Open: true}
	}
	var opens time.Time
	for i := range spec.Windows {
		closes, next, err := window(&spec.Windows[i], now)
		switch {
		case err != nil:
			s.Problem = fmt.Errorf("spec.maintenance.windows[%d].%w", i, err)
		case !closes.IsZero():
			s.open(closes)
		case !next.IsZero() && (opens.IsZero() || next.Before(opens)):
			opens = next
		}
	}
	if text := c.Annotations[v1alpha1.AnnotationMaintainUntil]; text != "" {
		until, err := time.Parse(time.RFC3339, text)
		switch {
		case err != nil:
			s.Problem = fmt.Errorf("annotation %s: %q is no time such as %s", v1alpha1.AnnotationMaintainUntil, text, now.UTC().Format(time.RFC3339))
		case until.After(now):
			s.open(until.Truncate(time.Second)) // as the status has it
		}
	}
	if !s.Open {
		s.Until = opens
		if opens.IsZero() && s.Problem == nil {
			s.Problem = errors.New("spec.maintenance.windows: none of them ever opens")
		}
	}
	return s
}

// open notes that pods may be restarted until then, or longer.
func (s *State) open(until time.Time) {
	s.Open = true
	if until.After(s.Until) {
		s.Until = until
	}
}

// window returns when a window closes that is open, and else when it opens next; zero: it is not,
// or never does.
func window(w *v1alpha1.MaintenanceWindow, now time.Time) (closes, opens time.Time, err error) {
	times, err := calendar.Parse(w.Schedule, w.TimeZone)
	if err != nil {
		return closes, opens, err
	}
	length, err := w.Duration.Parse()
	if err != nil {
		return closes, opens, err
	}
	if began := calendar.Latest(times, now.Add(-length), now); !began.IsZero() {
		return began.Add(length), opens, nil
	}
	return closes, times.Next(now), nil
}

// When returns when pods that wait are restarted, as a part of a sentence.
func (s State) When() string {
	if s.Until.IsZero() {
		return "no maintenance window opens any more: correct spec.maintenance.windows"
	}
	return "the maintenance window opens at " + s.Until.UTC().Format(time.RFC3339)
}
