package v1alpha1

import (
	"fmt"
	"strconv"
	"time"
)

// Duration is a length of time as the commands of TickMesh take it: 0, a number with
// one of the units d, w and y (365 days), or numbers with the units ms, s, m and h,
// such as 90d, 36h or 1h30m. It is text, not metav1.Duration, so that it can have days
// and the schema refuses what cannot be read.
//
// +kubebuilder:validation:MaxLength=24
// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,5}(ms|s|m|h)){1,4}|[1-9][0-9]{0,3}(d|w)|[1-9][0-9]?y)$`
type Duration string

// Parse returns the length. Empty is 0. Errors: text that the schema refuses.
func (d Duration) Parse() (time.Duration, error) {
	if d == "" {
		return 0, nil
	}
	last := len(d) - 1
	if days := daysOf(d[last]); days != 0 {
		n, err := strconv.ParseUint(string(d[:last]), 10, 16)
		if err != nil || n == 0 || n > 9999 || days == 365 && n > 99 {
			return 0, fmt.Errorf("duration %q: expected a whole number before its unit, such as 90d, 2w or 1y", string(d))
		}
		return time.Duration(n) * time.Duration(days) * 24 * time.Hour, nil
	}
	length, err := time.ParseDuration(string(d))
	if err != nil || length < 0 {
		return 0, fmt.Errorf("duration %q: expected 0, or a number with its unit, such as 30s, 36h, 90d, 2w or 1y", string(d))
	}
	return length, nil
}

// daysOf returns the days of a unit that time.ParseDuration does not know; 0: it is no
// such unit.
func daysOf(unit byte) int {
	switch unit {
	case 'd':
		return 1
	case 'w':
		return 7
	case 'y':
		return 365
	}
	return 0
}
